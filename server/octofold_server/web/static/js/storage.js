/** The page's storage in the browser. If the browser does not keep a text, this visit still does. */

const [local, session] = [new Map(), new Map()];

addEventListener("storage", ({ key }) => {
  if (key === null) local.clear();
  else local.delete(key); // another tab has stored a newer text
});

/** The text under a key, or null. `forSession` reads texts of this visit only, such as a token. */
export function stored(key, { forSession = false } = {}) {
  const memory = forSession ? session : local;
  if (memory.has(key)) return memory.get(key); // newer than the browser's text
  try {
    return (forSession ? sessionStorage : localStorage).getItem(key);
  } catch {
    return null; // disabled in the browser
  }
}

/** Store a text under a key. Returns whether the browser keeps it; its storage may be full or disabled. */
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
    // disabled in the browser
  }
  return keys.filter((key) => key.startsWith(prefix)).map((key) => stored(key));
}

/** Delete the text under a key. */
export function unstore(key) {
  local.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    // disabled in the browser
  }
}

/** Whether the browser keeps the last text that was stored under a key. */
export const isKept = (key) => !local.has(key);

/** Let the browser save a file. */
export function saveFile(name, content, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
