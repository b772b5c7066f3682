// What the student writes stays in this browser: programs by name with their crowd, and the state of the exercises.
const PROGRAMS = 'miaosha.mine', EXERCISES = 'miaosha.exercises';

function read(key, otherwise) {
  try {
    return { ...otherwise, ...JSON.parse(localStorage.getItem(key)) };
  } catch {
    return otherwise; // storage is forbidden, or has what this page did not write
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // storage is forbidden or full: it lasts as long as the page
  }
}

// The programs: {open: the name of the open one, all: {[name]: {language, source, plan}}}.
export const loadPrograms = () => read(PROGRAMS, { open: '', all: {} });
export const savePrograms = (programs) => write(PROGRAMS, programs);

// The exercises: {student, by: {[name]: {language, sources, hints, solved, cost, gaveUp}}};
// sources has one by language, and solved is a time in ms, 0 until then.
export const loadExercises = () => read(EXERCISES, { student: '', by: {} });
export const saveExercises = (exercises) => write(EXERCISES, exercises);

// freeName returns name, or name with the lowest number that is not taken.
export function freeName(all, name) {
  if (!(name in all)) return name;
  for (let n = 2; ; n++) if (!(`${name}-${n}` in all)) return `${name}-${n}`;
}

// exportFile lets the browser save a program as a file.
export function exportFile({ name, language, source }) {
  const url = URL.createObjectURL(new Blob([source], { type: 'text/plain' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${name}.${language}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const LARGEST = 64 * 1024 - 2048; // bytes of a source: the request has room for the rest

// readFile returns {name, language, source} of a file, or {problem: 'kind' or 'size'}.
export async function readFile(file) {
  const found = file.name.match(/^(.+)\.(lua|sql)$/i);
  if (!found) return { problem: 'kind' };
  if (file.size > LARGEST) return { problem: 'size' };
  const source = (await file.text()).replace(/\r\n?/g, '\n').replaceAll('\u0000', '');
  return { name: found[1].slice(0, 60), language: found[2].toLowerCase(), source };
}
