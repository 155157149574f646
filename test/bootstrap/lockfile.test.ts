import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';

const root = dirname(dirname(import.meta.dirname));
const read = (name: string): unknown => JSON.parse(readFileSync(join(root, name), 'utf8'));

const names = z.record(z.string(), z.string()).default({});
const lock = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string().optional(),
      resolved: z.string().optional(),
      hasInstallScript: z.boolean().default(false),
      optionalDependencies: names,
    }),
  ),
});
const manifest = z.object({ dependencies: names, devDependencies: names });

describe('package-lock.json', () => {
  const { packages } = lock.parse(read('package-lock.json'));

  test('has the packages for every platform, so that npm ci works on each', () => {
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies }]) =>
      Object.keys(optionalDependencies).filter(
        (name) =>
          packages[`node_modules/${name}`] === undefined && packages[`${path}/node_modules/${name}`] === undefined,
      ),
    );
    expect(missing).toEqual([]);
  });

  test('has the exact versions that package.json names', () => {
    const { dependencies, devDependencies } = manifest.parse(read('package.json'));
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      // An alias names its package, too: `npm:name@version`.
      expect([name, packages[`node_modules/${name}`]?.version]).toEqual([name, version.replace(/^npm:.+@/, '')]);
    }
  });

  // A script may call a compiler or fetch files: ssh2, which testcontainers wants, is replaced for that (`overrides`).
  test('has no package with an install script besides the known ones', () => {
    const scripted = Object.entries(packages).filter(([, { hasInstallScript }]) => hasInstallScript);
    const names = new Set(scripted.map(([path]) => path.replace(/.*node_modules\//, '')));
    expect([...names].sort()).toEqual(['chdb', 'node', 'protobufjs']);
  });

  test('has no resolved addresses, so that each machine uses its own registry', () => {
    expect(Object.values(packages).filter(({ resolved }) => resolved !== undefined)).toEqual([]);
  });
});
