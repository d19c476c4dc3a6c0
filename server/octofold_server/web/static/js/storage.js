/** What the browser keeps for the page. What it does not keep, this visit remembers. */

const [local, session] = [new Map(), new Map()];

addEventListener("storage", ({ key }) => {
  if (key === null) local.clear();
  else local.delete(key); // what another tab has kept is newer
});

/** The text under a key, or null; `forSession`: of this visit only, such as a token. */
export function stored(key, { forSession = false } = {}) {
  const memory = forSession ? session : local;
  if (memory.has(key)) return memory.get(key); // newer than what the browser kept
  try {
    return (forSession ? sessionStorage : localStorage).getItem(key);
  } catch {
    return null; // switched off in the browser
  }
}

/** Keep a text under a key; returns whether the browser keeps it: its storage may be full, or switched off. */
export function store(key, value, { forSession = false } = {}) {
  const memory = forSession ? session : local;
  try {
    (forSession ? sessionStorage : localStorage).setItem(key, value);
    memory.delete(key);
    return true;
  } catch {
    memory.set(key, String(value));
    return false;
  }
}

/** The texts under all keys that begin with a prefix. */
export function allStored(prefix) {
  let keys = [...local.keys()];
  try {
    keys = [...new Set([...keys, ...Object.keys(localStorage)])];
  } catch {
    // switched off in the browser
  }
  return keys.filter((key) => key.startsWith(prefix)).map((key) => stored(key));
}

/** Keep nothing under a key. */
export function unstore(key) {
  local.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    // switched off in the browser
  }
}

/** Whether the browser keeps what was stored last under a key. */
export const isKept = (key) => !local.has(key);

/** Let the browser save a file. */
export function saveFile(name, content, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
