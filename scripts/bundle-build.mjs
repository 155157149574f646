/**
 * `node scripts/bundle-build.mjs <folder>`: bundles the gateway into the folder, with `inputs.json`, the files that it was
 * made from (see bundle.mjs). In a process of its own, since the bundler holds much memory.
 *
 * Folders and addresses in the sources (`import.meta`) stay those of the sources. A program that a source names as
 * `new URL('./worker.ts', import.meta.url)`, for a process or a thread, becomes a file of the bundle.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';

const root = dirname(import.meta.dirname);
const source = join(root, 'src') + sep;
const folder = process.argv[2];

/**
 * What stays a package: what a start with the log in files does not load, what has native code, and kafkajs, whose modules
 * the gateway changes.
 */
const external = /^(chdb|kafkajs|@eventstore\/db-client|pg)(\/|$)|\.node$/;

const programs = /new URL\('([^']+\.ts)', import\.meta\.url\)/g;

const ownAddresses = {
  name: 'own-addresses',
  transform: {
    filter: { id: /\.ts$/, code: 'import.meta.' },
    handler(code, id) {
      if (!id.startsWith(source)) return null;
      return code
        .split(programs)
        .map((part, index) =>
          index % 2 === 0 ? withAddress(part, id) : programAt(this, fileURLToPath(new URL(part, pathToFileURL(id)))),
        )
        .join('');
    },
  },
};

function withAddress(code, id) {
  return code
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
    .replaceAll('import.meta.dirname', JSON.stringify(dirname(id)));
}

/** All files of a bundle are in one folder. */
function programAt(context, file) {
  const fileName = `${relative(source, file).replace(/\.ts$/, '').split(sep).join('-')}.mjs`;
  context.emitFile({ type: 'chunk', id: file, fileName });
  return `new URL('./${fileName}', import.meta.url)`;
}

let modules = [];
const inputs = {
  name: 'inputs',
  buildEnd() {
    modules = [...this.getModuleIds()].filter((id) => isAbsolute(id) && existsSync(id));
  },
};

const bundle = await rolldown({
  input: { main: join(root, 'src', 'main.ts') },
  cwd: root,
  platform: 'node',
  tsconfig: false,
  external,
  plugins: [ownAddresses, inputs],
});
await bundle.write({ dir: folder, entryFileNames: '[name].mjs', chunkFileNames: '[name]-[hash].mjs', comments: false });
const settings = ['package.json', 'scripts/bundle-build.mjs', 'node_modules/rolldown/package.json'];
const sources = modules.map((id) => relative(root, id)).sort();
writeFileSync(join(folder, 'inputs.json'), JSON.stringify([...settings, ...sources]));
