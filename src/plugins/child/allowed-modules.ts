/**
 * The built-in modules that a plugin may import. Node's permission model does not cover the others, or they start threads,
 * processes or realms without the restrictions, change Node itself, or write files.
 */
import { isBuiltin } from 'node:module';

const allowed = new Set([
  ...['assert', 'assert/strict', 'async_hooks', 'buffer', 'console', 'constants', 'crypto', 'diagnostics_channel'],
  ...['dgram', 'dns', 'dns/promises', 'events', 'fs', 'fs/promises', 'http', 'http2', 'https', 'module', 'net', 'os'],
  ...['path', 'path/posix', 'path/win32', 'perf_hooks', 'process', 'punycode', 'querystring', 'readline'],
  ...['readline/promises', 'stream', 'stream/consumers', 'stream/promises', 'stream/web', 'string_decoder'],
  ...['timers', 'timers/promises', 'tls', 'tty', 'url', 'util', 'util/types', 'zlib'],
]);

/** Whether a plugin may import it: everything that is not built in, and the modules above. */
export function mayImport(specifier: string): boolean {
  const name = specifier.startsWith('node:') ? specifier.slice('node:'.length) : specifier;
  return allowed.has(name) || !(specifier.startsWith('node:') || isBuiltin(specifier));
}

/** What `node:module` offers to plugins, besides the members with `_` that `require` itself needs. */
export const allowedOfModule: ReadonlySet<string> = new Set([
  ...[
    'builtinModules',
    'constants',
    'createRequire',
    'findPackageJSON',
    'findSourceMap',
    'isBuiltin',
    'length',
    'Module',
  ],
  ...['name', 'prototype', 'SourceMap', 'globalPaths', 'wrap', 'wrapper'],
]);
