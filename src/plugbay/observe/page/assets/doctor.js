// The findings of `plugbay doctor`, when they are asked for.

import { byId, make } from "./elements.js";

byId("examine").addEventListener("click", async () => {
  const place = byId("findings");
  place.replaceChildren(make("p", { class: "empty" }, "Examining …"));
  try {
    const answer = await (await fetch("doctor.json")).json();
    if (!answer.findings) throw new Error(answer.message);
    const missing = answer.incomplete.length;
    const summary = `${answer.checks} checks, ${answer.findings.length} findings${missing ? `, and ${missing} checks could not see everything` : ""}.`;
    place.replaceChildren(make("p", { class: "empty" }, answer.well ? `The node is well: ${answer.checks} checks.` : summary), ...answer.findings.map(entry));
  } catch (error) {
    place.replaceChildren(make("p", {}, `There is no diagnosis: ${error.message}`));
  }
});

function entry(finding) {
  return make("div", { class: `finding ${finding.severity}` },
    make("b", {}, `${finding.severity} ${finding.id}: ${finding.what}`),
    ...finding.evidence.map((line) => make("p", {}, make("code", {}, line))), make("p", {}, `Why: ${finding.cause}`), make("p", {}, `To do: ${finding.remedy}`));
}
