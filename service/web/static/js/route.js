// Every view and every question is an address: `#/models/family@2?tab=rules`.

/** {segments, params} of the address. */
export function current() {
  const [way, search = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const segments = way.split("/").filter(Boolean).map(decode);
  return { segments, params: new URLSearchParams(search) };
}

function decode(segment) {
  try { return decodeURIComponent(segment); } catch { return segment; }
}

/** The address of a view; parameters that are null or empty are left out. */
export function to(segments, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value != null && value !== "");
  const way = [].concat(segments).map((segment) => encodeURIComponent(segment).replaceAll("%40", "@")).join("/");
  return `#/${way}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

export const go = (address) => { location.hash = address; };

/** Changes the address without a new entry in the history and without drawing the view again. */
export const note = (address) => history.replaceState(null, "", address);
