// What the server sends, as a stream that is opened before the rest of the page is loaded; what comes meanwhile waits.

const source = new EventSource("events");
const waiting = [];
let take = (...event) => waiting.push(event);

for (const name of ["state", "more", "live", "change"]) source.addEventListener(name, (event) => take(name, event.data));

// Have events taken by `taker`, those that wait first, and the state of the connection told to `tell`.
export function follow(taker, tell) {
  take = taker;
  for (const event of waiting.splice(0)) take(...event);
  for (const name of ["open", "error"]) source.addEventListener(name, () => tell(source.readyState));
  tell(source.readyState);
}
