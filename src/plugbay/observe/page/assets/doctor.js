// The findings of `plugbay doctor`, when they are asked for: those of one check together, and the checks that saw less.

import { amount, byId, make } from "./elements.js";

const SHOWN = 3; // Of more findings of one check, the others are folded.
const SEVERITIES = [["error"], ["warning"], ["info", "note"]];

byId("examine").addEventListener("click", async () => {
  const place = byId("findings");
  place.replaceChildren(make("p", { class: "empty" }, "Examining …"));
  try {
    const answer = await (await fetch("doctor.json")).json();
    if (!answer.findings) throw new Error(answer.message);
    place.replaceChildren(make("p", { class: "empty" }, summary(answer)), ...grouped(answer.findings).map(group), ...unseen(answer.incomplete));
  } catch (error) {
    place.replaceChildren(make("p", {}, `There is no diagnosis: ${error.message}`));
  }
});

function summary(answer) {
  const checks = amount(answer.checks, "check");
  if (answer.well) return `The node is well: ${checks} found nothing wrong.`;
  const counts = SEVERITIES.map(([severity, noun = severity]) => [answer.findings.filter((each) => each.severity === severity).length, noun]);
  const found = counts.filter(([count]) => count).map(([count, noun]) => amount(count, noun)).join(", ") || "nothing wrong was found";
  return `${found}, by ${checks}${answer.incomplete.length ? `, ${answer.incomplete.length} of them incomplete` : ""}.`;
}

function grouped(findings) {
  const groups = new Map();
  for (const finding of findings) {
    const key = `${finding.id} ${finding.remedy}`;
    groups.set(key, [...(groups.get(key) ?? []), finding]);
  }
  return [...groups.values()];
}

// Cause and remedy once; what was found, and where it was seen, each.
function group(findings) {
  const [{ severity, id, cause, remedy }] = findings;
  const more = findings.slice(SHOWN);
  return make("div", { class: `finding ${severity}` },
    make("b", {}, `${severity} ${id}${findings.length > 1 ? ` × ${findings.length}` : ""}`), ...findings.slice(0, SHOWN).map(entry),
    more.length ? folded(`${more.length} more`, more.map(entry)) : null, make("p", {}, `Why: ${cause}`), make("p", {}, `To do: ${remedy}`));
}

function entry(finding) {
  return make("div", { class: "what" }, make("p", {}, `${finding.what}.`), ...finding.evidence.map((line) => make("p", {}, make("code", {}, line))));
}

function unseen(incomplete) {
  if (!incomplete.length) return [];
  const reasons = [...new Set(incomplete.flatMap((each) => each.reasons))];
  const intro = `These would not have found everything: ${incomplete.map((each) => each.id).join(", ")}.`;
  return [folded(`${amount(incomplete.length, "check")} could not see everything`, [make("p", {}, intro), ...reasons.map((each) => make("p", {}, each))])];
}

const folded = (title, content) => make("details", {}, make("summary", {}, title), ...content);
