// What is open stands in the address: it can be shared, and the browser's Back goes back to what was open before.

const KINDS = ["device", "pod", "plugin", "socket"];

const written = (text) => encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd")).replaceAll("%2F", "/");

// The view that the address names, such as { kind: "device", name: ID, resource: NAME }; null for none.
export function addressed() {
  const found = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const kind = KINDS.find((each) => found.has(each));
  return kind ? { kind, name: found.get(kind), resource: found.get("of") ?? "" } : null;
}

// Have the address name a view that is opened from another one, or from the page.
export function address({ kind, name, resource }, isWithin) {
  history.pushState({ behind: isWithin ? behind() + 1 : 0 }, "", `#${kind}=${written(name)}${resource ? `&of=${written(resource)}` : ""}`);
}

// How many views are behind the one that is open.
export const behind = () => history.state?.behind ?? 0;

export function forget() {
  if (addressed()) history.replaceState(null, "", location.pathname + location.search);
}
