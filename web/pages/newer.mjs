// Writes what is newer than the oldest browsers: `npm run newer`. A test deletes all of it before the scripts of a page run.
import { writeFile } from 'node:fs/promises';
import { newer } from './baseline.mjs';

await writeFile(new URL('../testdata/newer.txt', import.meta.url), newer().lines.join('\n') + '\n');
