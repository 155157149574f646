/** A small dashboard, as its build writes it. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';

export const script = `export const text = ${JSON.stringify('a '.repeat(2000))};`;

/** @param folder is created @returns the folder */
export function writeDashboard(folder: string): string {
  mkdirSync(join(folder, 'assets/fonts'), { recursive: true });
  writeFileSync(
    join(folder, 'index.html'),
    '<!doctype html><title>Chancery</title><link rel="stylesheet" href="./assets/app-1.css">' +
      '<script type="module" src="./assets/app-1.js"></script>',
  );
  writeFileSync(join(folder, 'assets/app-1.js'), script);
  writeFileSync(join(folder, 'assets/app-1.js.br'), brotliCompressSync(script));
  writeFileSync(join(folder, 'assets/app-1.js.gz'), gzipSync(script));
  writeFileSync(join(folder, 'assets/app-1.css'), 'body { margin: 0 }');
  writeFileSync(join(folder, 'assets/fonts/text.woff2'), Buffer.from([0, 1, 2]));
  return folder;
}
