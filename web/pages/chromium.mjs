import { existsSync } from 'node:fs';

const { CHROME = '' } = process.env;
const CHROMES = [CHROME, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'];

// findChromium returns the browser's program.
export function findChromium() {
  const program = CHROMES.find((path) => path && existsSync(path));
  if (!program) throw new Error('no Chromium: set CHROME');
  return program;
}
