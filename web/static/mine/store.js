// What the student writes stays in this browser: programs by name with their crowd, and the state of the exercises.
const PROGRAMS = 'miaosha.mine', EXERCISES = 'miaosha.exercises';

const LANGUAGES = ['lua', 'sql'];
const MOST = 1_000_000_000; // of any figure of a plan

const unstored = new Map(); // by key, what could not be stored as storage is forbidden or full: it lasts as long as the page

function read(key) {
  if (unstored.has(key)) return unstored.get(key);
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null; // storage is forbidden, or has what this page did not write
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    unstored.delete(key);
  } catch {
    unstored.set(key, value);
  }
}

// watch calls changed when another tab has changed the value of key. Returns a function that ends it.
function watch(key, changed) {
  const onStorage = (event) => { if (event.key === key || event.key === null) changed(); };
  addEventListener('storage', onStorage);
  return () => removeEventListener('storage', onStorage);
}

// What is read may have been written by another version of this page, or by a person. These return the parts that have the right shape.
const objectOf = (value) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {});
const textOf = (value) => (typeof value === 'string' ? value : '');
const amountOf = (value) => (Number.isFinite(value) && value >= 0 ? value : 0);
const entriesOf = (value, of) => Object.fromEntries(Object.entries(objectOf(value)).map(([key, one]) => [key, of(one)]).filter(([, one]) => one !== undefined));
const programOf = ({ language, source, plan }) => (LANGUAGES.includes(language) && typeof source === 'string' ? { language, source, plan: planOf(objectOf(plan)) } : undefined);
const planOf = ({ faults, closes, ...figures }) => ({
  ...entriesOf(figures, (n) => (Number.isInteger(n) && n >= 0 && n <= MOST ? n : undefined)),
  faults: Array.isArray(faults) ? faults.filter((fault) => typeof fault === 'string') : [],
  closes: closes === true,
});
const exerciseOf = ({ language, sources, hints, solved, cost, gaveUp }) => ({
  ...(LANGUAGES.includes(language) && { language }),
  sources: entriesOf(sources, (source) => (typeof source === 'string' ? source : undefined)),
  hints: amountOf(hints), solved: amountOf(solved), gaveUp: gaveUp === true,
  cost: Number.isFinite(cost?.sql_per_order) ? { sql_per_order: cost.sql_per_order, per_second: amountOf(cost.per_second) } : null,
});

// The programs: {open: the name of the open one, all: {[name]: {language, source, plan}}}.
export const loadPrograms = () => {
  const { open, all } = objectOf(read(PROGRAMS));
  return { open: textOf(open), all: entriesOf(all, (program) => programOf(objectOf(program))) };
};
export const savePrograms = (programs) => write(PROGRAMS, programs);
export const watchPrograms = (changed) => watch(PROGRAMS, changed);

// The exercises: {student, by: {[name]: {language, sources, hints, solved, cost, gaveUp}}};
// sources has one by language, and solved is a time in ms, 0 until then.
export const loadExercises = () => {
  const { student, by } = objectOf(read(EXERCISES));
  return { student: textOf(student), by: entriesOf(by, (exercise) => exerciseOf(objectOf(exercise))) };
};
export const saveExercises = (exercises) => write(EXERCISES, exercises);
export const watchExercises = (changed) => watch(EXERCISES, changed);

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

export const LARGEST = 64 * 1024; // bytes of a source

// readFile returns {name, language, source} of a file, or {problem: 'kind' or 'size'}.
export async function readFile(file) {
  const found = file.name.match(/^(.+)\.(lua|sql)$/i);
  if (!found) return { problem: 'kind' };
  if (file.size > LARGEST) return { problem: 'size' };
  const source = (await file.text()).replace(/\r\n?/g, '\n').replaceAll('\u0000', '');
  return { name: found[1].slice(0, 60), language: found[2].toLowerCase(), source };
}
