/** Builds the seeded history that the browser tests of the day use, so that none of them waits for it. */
import { seededFolder } from './seeded-history.ts';

(await seededFolder()).remove();
