/** `src/main.ts` as users run it: as its bundle, which `vitest.config.ts` has this file make before the tests. */
import { dirname, join } from 'node:path';
import { bundledMain, compileCacheOf, prepareBundle } from '../../scripts/bundle.mjs';

const root = dirname(dirname(import.meta.dirname));
const bundle = bundledMain(root);

export const main = bundle ?? join(root, 'src/main.ts');

/** For the variable `NODE_COMPILE_CACHE`. */
export const compileCache =
  bundle === undefined ? join(root, 'node_modules/.cache/node-compile') : compileCacheOf(bundle);

export default async function setup(): Promise<void> {
  await prepareBundle(root, process.execPath);
}
