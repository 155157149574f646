/** The built dashboard: its page and its assets, read once into memory. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

export interface Asset {
  /** Media type, with its charset for text. */
  readonly type: string;
  readonly plain: Buffer;
  /** The variants that the build compressed. */
  readonly br: Buffer | undefined;
  readonly gzip: Buffer | undefined;
}

export interface Bundle {
  /** The page, whose asset URLs begin with `./assets/`. */
  readonly page: string;
  /** Hash of the page. */
  readonly version: string;
  /** By path below the folder of the assets. */
  readonly assets: ReadonlyMap<string, Asset>;
}

const MAX_FILES = 2000;
const MAX_BYTES = 64 * 1024 * 1024;

/** Other files are not served. */
const mediaTypes: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  json: 'application/json; charset=utf-8',
  txt: 'text/plain; charset=utf-8',
  svg: 'image/svg+xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  webp: 'image/webp',
  ico: 'image/x-icon',
  woff2: 'font/woff2',
  wasm: 'application/wasm',
};

/**
 * @param folder with `index.html` and `assets/`, as the build of the dashboard writes it
 * @returns undefined when it was not built
 * @throws Error for a bundle that is too large or cannot be read
 */
export function readBundle(folder: string): Bundle | undefined {
  const page = readIfThere(join(folder, 'index.html'))?.toString();
  if (page === undefined) return undefined;
  const version = createHash('sha256').update(page).digest('base64url').slice(0, 22);
  return { page, version, assets: readAssets(join(folder, 'assets')) };
}

function readAssets(folder: string): Map<string, Asset> {
  const files = filesIn(folder);
  const bytes = files.reduce((sum, file) => sum + statSync(file).size, 0);
  if (files.length > MAX_FILES || bytes > MAX_BYTES) {
    throw new Error(`${folder} has ${files.length} files with ${bytes} bytes; at most ${MAX_FILES} and ${MAX_BYTES}`);
  }
  const assets = new Map<string, Asset>();
  for (const file of files) {
    const type = mediaTypes[file.slice(file.lastIndexOf('.') + 1)];
    if (type === undefined) continue;
    const name = relative(folder, file).split(sep).join('/');
    assets.set(name, {
      type,
      plain: readFileSync(file),
      br: readIfThere(`${file}.br`),
      gzip: readIfThere(`${file}.gz`),
    });
  }
  return assets;
}

/** Regular files only: a link could lead out of the folder. */
function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
}

function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
