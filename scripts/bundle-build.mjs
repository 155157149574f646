/**
 * `node scripts/bundle-build.mjs <folder>`: bundles the gateway into the folder, with `inputs.json`, the files that it was
 * made from (see bundle.mjs). In a process of its own, since the bundler holds much memory.
 *
 * Folders and addresses in the sources (`import.meta`) stay those of the sources. A program that a source names as
 * `new URL('./worker.ts', import.meta.url)`, for a process or a thread, becomes a file of the bundle.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
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
const external =
  /^(chdb|@modelcontextprotocol\/[^/]+|kafkajs|@eventstore\/db-client|@opentelemetry\/(?!api(\/|$))[^/]+|pg|ws)(\/|$)|\.node$/;
/** What Fastify loads for JSON Schema and for tests: the gateway needs neither. */
const unusedByFastify = /^(@fastify\/(ajv-compiler|fast-json-stringify-compiler)|light-my-request)$/;
const load = createRequire(import.meta.url);
const pathOf = (file) => JSON.stringify(load.resolve(file));

/** Smaller forms of modules: the unused parts of a package cost memory in each process, also when no function in them runs. */
const smaller = {
  name: 'smaller',
  resolveId: {
    filter: { id: /^(node:http|rxjs|undici)$|fastify|^light-my-request$/ },
    handler(id, importer) {
      if (unusedByFastify.test(id)) return { id: createRequire(importer).resolve(id), external: 'absolute' };
      if (id === 'rxjs') return join(dirname(load.resolve('rxjs/package.json')), 'dist/esm/index.js');
      if (!importer.includes('node_modules') && (id === 'undici' || id === 'node:http')) return `\0${id}`;
      return null;
    },
  },
  load: {
    filter: { id: /^\0(node:http|undici)$/ },
    handler(id) {
      if (id !== '\0undici') return http();
      return `export { default as Pool } from ${pathOf('undici/lib/dispatcher/pool.js')};
        export { default as buildConnector } from ${pathOf('undici/lib/core/connect.js')};
        export { default as ProxyAgent } from ${pathOf('undici/lib/dispatcher/proxy-agent.js')};`;
    },
  },
};

/** An import of `node:http` reads all its getters, one of which loads the whole of Node's own undici. */
function http() {
  const properties = Object.entries(Object.getOwnPropertyDescriptors(process.getBuiltinModule('node:http')));
  const names = properties.filter(([, { get }]) => get === undefined).map(([name]) => name);
  return `const http = process.getBuiltinModule('node:http');\nexport default http;\nexport const { ${names.join(', ')} } = http;`;
}

/** `node:http2` and TLS take 30 ms each: they are loaded when one of these packages uses them. */
const later = {
  name: 'later',
  transform: {
    filter: { id: /(fastify\/lib\/server|prom-client\/lib\/pushgateway|undici\/lib\/dispatcher\/client)\.js$/ },
    handler(code) {
      return code
        .replace(/const (\w+) = (require\('\.\/client-h2\.js'\))/, 'const $1 = (...given) => $2(...given)')
        .replace(
          /const (\w+) = (require\('(?:node:)?http(?:s|2)'\))/g,
          'const $1 = new Proxy({}, { get: (_, member) => $2[member] })',
        );
    },
  },
};

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
  plugins: [ownAddresses, smaller, later, inputs],
});
const { output } = await bundle.generate({
  entryFileNames: '[name].mjs',
  chunkFileNames: '[name]-[hash].mjs',
  comments: false,
});
mkdirSync(folder, { recursive: true });
for (const { fileName, code } of output) write(fileName, inAscii(code));
const [bundler] = /^.*[\\/]node_modules[\\/]rolldown[\\/]/.exec(fileURLToPath(import.meta.resolve('rolldown')));
const settings = ['package.json', 'scripts/bundle-build.mjs', relative(root, join(bundler, 'package.json'))];
const sources = modules.map((id) => relative(root, id)).sort();
write('inputs.json', JSON.stringify([...settings, ...sources]));

function write(fileName, text) {
  writeFileSync(join(folder, fileName), text, { flush: true });
}

/** V8 keeps a source with one character beyond Latin-1 in two bytes for each. */
function inAscii(code) {
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
