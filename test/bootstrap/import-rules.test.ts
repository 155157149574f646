import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, posix } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { houseRuleViolations, type TemporaryException } from '../../scripts/import-rules.ts';
import { importsOf } from '../../scripts/imports.ts';

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

/** The check's findings about a project with these files. */
function violations(files: Record<string, string>, exceptions?: readonly TemporaryException[]): string[] {
  const root = mkdtempSync(join(tmpdir(), 'chancery-arrows-'));
  roots.push(root);
  for (const [path, source] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), source);
  }
  return houseRuleViolations(root, exceptions);
}

describe('JSON.parse, which rounds integers', () => {
  test.each(['src/providers/a.ts', 'src/commands/exchange/a.ts'])('%s may not', (file) => {
    expect(violations({ [file]: 'const value = JSON.parse(text);\n' })).toEqual([
      `${file} calls JSON.parse, which rounds integers past 2^53: use parseExactly`,
    ]);
  });

  test('the configuration may', () => {
    expect(violations({ 'src/config/a.ts': 'const value = JSON.parse(text);\n' })).toEqual([]);
  });
});

describe('the address of a client', () => {
  test.each(['const { remoteAddress } = request.socket;', "const list = headers['x-forwarded-for'];"])(
    'is not read by %j',
    (source) => {
      expect(violations({ 'src/http/v1/a.ts': `${source}\n` })).toEqual([
        'src/http/v1/a.ts reads the address of a connection: use addressOf of src/http/client-address.ts',
      ]);
    },
  );

  test('is read in one place', () => {
    expect(violations({ 'src/http/client-address.ts': 'const { remoteAddress } = request.socket;\n' })).toEqual([]);
  });
});

describe('connections to other machines', () => {
  test.each([
    ["import { Pool } from 'undici';", 'src/commands/a.ts'],
    ["const { Pool } = await import('pg');", 'src/commands/a.ts'],
    ["import { request } from 'node:https';", 'src/wiring/a.ts'],
    ["import { connect as open } from 'node:tls';", 'src/wiring/a.ts'],
    ["import { createServer, get } from 'node:http';", 'src/http/a.ts'],
    ['const answer = await fetch(url);', 'src/http/a.ts'],
    ['export const call = () => fetch(url);', 'src/http/a.ts'],
  ])('%s may not be in %s', (source, file) => {
    expect(violations({ [file]: `${source}\n` })).toEqual([
      `${file} opens connections without the proxies: use createTransport of src/providers/transport.ts`,
    ]);
  });

  test.each([
    "import type { Pool } from 'undici';",
    "import { createServer, type IncomingMessage } from 'node:http';",
    "import { isIP, type Socket } from 'node:net';",
    'broker.fetch(request);',
    'interface A { fetch(request: string): void }',
  ])('%s opens none', (source) => {
    expect(violations({ 'src/http/a.ts': `${source}\n` })).toEqual([]);
  });

  test('are where the list says', () => {
    expect(violations({ 'src/providers/transport.ts': 'export {};\n' })).toEqual([
      'src/providers/transport.ts opens no connections: remove it from opensConnections in scripts/import-rules.ts',
    ]);
  });
});

describe('the dashboard', () => {
  const only = 'the dashboard may import its own sources and types of dashboard/generated';

  test.each([
    ["import { a } from '../../../src/json/exact.ts';", 'src/json/exact.ts'],
    ["import type { A } from '../../../src/http/server.ts';", 'src/http/server.ts'],
    ["import document from '../../generated/openapi.json';", 'dashboard/generated/openapi.json'],
    ["const vite = import('../../vite.config.ts');", 'dashboard/vite.config.ts'],
  ])('may not %s', (source, to) => {
    expect(violations({ 'dashboard/src/pages/a.tsx': source })).toEqual([
      `dashboard/src/pages/a.tsx imports ${to}: ${only}`,
    ]);
  });

  test.each([
    "import { a } from '../ui/a.tsx';",
    "import '../ui/a.css';",
    "import type { paths } from '../../generated/api.d.ts';",
    "import { render } from 'preact';",
  ])('may %s', (source) => {
    expect(violations({ 'dashboard/src/pages/a.tsx': source })).toEqual([]);
  });

  test('may not be imported by the gateway', () => {
    expect(violations({ 'src/http/a.ts': "import { a } from '../../dashboard/src/a.ts';" })).toEqual([
      'src/http/a.ts imports dashboard/src/a.ts, which is outside src',
    ]);
  });

  test('has files that say what they hold', () => {
    expect(violations({ 'dashboard/src/utils.ts': '' })).toEqual([
      'dashboard/src/utils.ts: "utils" does not say what it holds',
    ]);
  });
});

describe('the rules of imports', () => {
  test('this project keeps its own rules', () => {
    expect(houseRuleViolations(join(import.meta.dirname, '..', '..'))).toEqual([]);
  });

  test.each([
    ['src/events/a.ts', '../providers/provider.ts'],
    ['src/providers/llamacpp/a.ts', '../../events/log.ts'],
    ['src/providers/a.ts', '../http/errors.ts'],
    ['src/config/a.ts', '../providers/types.ts'],
    ['src/commands/a.ts', '../projections/p.ts'],
    ['src/commands/a.ts', '../http/errors.ts'],
    ['src/projections/a.ts', '../providers/provider.ts'],
    ['src/http/v1/a.ts', '../../providers/provider.ts'],
    ['src/http/a.ts', '../events/embedded/embedded-log.ts'],
    ['src/http/a.ts', '../events/catalogue/exchange.ts'],
    ['src/http/a.ts', '../config/config.ts'],
    ['src/cli/a.ts', '../http/server.ts'],
    ['src/events/a.ts', '../main.ts'],
    ['src/analytics/a.ts', '../gateway.ts'],
    ['src/analytics/a.ts', '../wiring/analytics/reports.ts'],
    ['src/analytics/a.ts', '../http/server.ts'],
    ['src/analytics/a.ts', '../commands/audit/audit-reads.ts'],
    ['src/http/a.ts', '../analytics/process.ts'],
    ['src/cli/a.ts', '../analytics/rebuild.ts'],
    ['src/events/a.ts', '../../infra/simulated-provider/server.ts'],
    ['src/events/a.ts', '../../test/support/x.ts'],
    ['src/main.ts', '../test/support/x.ts'],
    ['src/elsewhere/a.ts', '../events/log.ts'],
  ])('%s may not import %s', (from, specifier) => {
    const [violation, ...more] = violations({ [from]: `import { x } from '${specifier}';\n` });
    expect(violation).toContain(from);
    expect(more).toEqual([]);
  });

  test.each([
    ['src/events/embedded/a.ts', '../log.ts'],
    ['src/commands/exchange/a.ts', '../../events/log.ts'],
    ['src/commands/a.ts', '../providers/provider.ts'],
    ['src/providers/a.ts', '../json/exact-json.ts'],
    ['src/projections/a.ts', '../events/catalogue/exchange.ts'],
    ['src/http/v1/a.ts', '../../commands/exchange/exchange.ts'],
    ['src/http/admin/a.ts', '../../projections/p.ts'],
    ['src/http/a.ts', '../events/log.ts'],
    ['src/cli/a.ts', '../config/config.ts'],
    ['src/cli/a.ts', '../events/log.ts'],
    ['src/analytics/a.ts', '../events/open-log.ts'],
    ['src/analytics/a.ts', '../http/clickhouse/users.ts'],
    ['src/analytics/a.ts', '../wiring/diagnostics.ts'],
    ['src/wiring/analytics/a.ts', '../../analytics/process.ts'],
    ['src/main.ts', './analytics/progress.ts'],
    ['src/main.ts', './providers/types.ts'],
    ['src/gateway.ts', '../infra/simulated-provider/server.ts'],
    ['src/events/a.ts', 'node:fs'],
    ['src/events/a.ts', 'zod'],
  ])('%s may import %s', (from, specifier) => {
    expect(violations({ [from]: `import { x } from '${specifier}';\n` })).toEqual([]);
  });

  test('types may be imported where values may not', () => {
    const from = 'src/http/a.ts';
    const specifier = '../events/catalogue/exchange.ts';
    expect(violations({ [from]: `import type { X } from '${specifier}';\n` })).toEqual([]);
    expect(violations({ [from]: `import { type X, type Y } from '${specifier}';\n` })).toEqual([]);
    expect(violations({ [from]: `import { type X, y } from '${specifier}';\n` })).toHaveLength(1);
  });

  test('a type is an arrow too where nothing is allowed', () => {
    expect(violations({ 'src/events/a.ts': "import type { P } from '../providers/provider.ts';\n" })).toHaveLength(1);
  });

  test.each([
    ['src/commands/refusal.ts', './access/selector.ts'],
    ['src/commands/model-request/a.ts', '../exchange/dialect.ts'],
    ['src/commands/access/a.ts', '../virtual-models/expand.ts'],
    ['src/commands/responses/a.ts', '../conversations/conversation.ts'],
    ['src/commands/exchange/dialect.ts', './record/end-events.ts'],
    ['src/commands/exchange/record/a.ts', '../pipeline/exchange.ts'],
    ['src/commands/exchange/dialect.ts', './dialects/chat/chat-dialect.ts'],
    ['src/commands/exchange/dialects/chat/a.ts', '../responses/responses-dialect.ts'],
    ['src/commands/exchange/record/a.ts', '../../files/named-objects.ts'],
  ])('%s may not import %s, which is in a higher layer', (from, specifier) => {
    const there = posix.join(posix.dirname(from), specifier);
    for (const statement of [`import { x } from '${specifier}';\n`, `import type { X } from '${specifier}';\n`]) {
      expect(violations({ [from]: statement, [there]: 'export {};\n' })).toEqual([
        expect.stringContaining(`${from} imports ${there}: in commandLayers`),
      ]);
    }
  });

  test.each([
    ['src/commands/access/a.ts', '../refusal.ts'],
    ['src/commands/access/a.ts', './selector.ts'],
    ['src/commands/exchange/record/a.ts', '../dialect.ts'],
    ['src/commands/exchange/dialects/chat/a.ts', '../read-with.ts'],
    ['src/commands/exchange/pipeline/a.ts', '../../access/selector.ts'],
    ['src/commands/files/a.ts', '../exchange/dialects/chat/upstream-chat.ts'],
  ])('%s may import %s, which is in a lower layer', (from, specifier) => {
    const there = posix.join(posix.dirname(from), specifier);
    expect(violations({ [from]: `import { x } from '${specifier}';\n`, [there]: 'export {};\n' })).toEqual([]);
  });

  test.each(['src/commands/newcomers/a.ts', 'src/commands/exchange/newcomers/a.ts'])(
    'a folder that the list of layers does not contain is rejected: %s',
    (path) => {
      expect(violations({ [path]: 'export {};\n' })).toEqual([
        `${path}: commandLayers in scripts/import-rules.ts does not list the folder ${posix.relative('src/commands', dirname(path))}`,
      ]);
    },
  );

  test('a temporary exception allows its import alone, and is rejected once that import is gone', () => {
    const from = 'src/commands/access/a.ts';
    const exception = { from, to: 'src/commands/files/b.ts', reason: 'for this test' };
    const excepted = "import { b } from '../files/b.ts';\n";
    expect(violations({ [from]: excepted }, [exception])).toEqual([]);
    expect(violations({ [from]: `${excepted}import { c } from '../files/c.ts';\n` }, [exception])).toEqual([
      expect.stringContaining(`${from} imports src/commands/files/c.ts`),
    ]);
    expect(violations({ [from]: 'export {};\n' }, [exception])).toEqual([
      `${from} no longer imports ${exception.to}: remove the exception from scripts/import-rules.ts`,
    ]);
  });

  test.each(['infra/simulated-provider', 'scripts', 'bench', 'test/support'])(
    'an import cycle in %s is rejected',
    (folder) => {
      const found = violations({
        [`${folder}/a.ts`]: "import { b } from './b.ts';\n",
        [`${folder}/b.ts`]: "import type { A } from './a.ts';\n",
        [`${folder}/node_modules/x/a.mjs`]: "import './b.mjs';\n",
        [`${folder}/node_modules/x/b.mjs`]: "import './a.mjs';\n",
      });
      expect(found).toEqual([`import cycle: ${folder}/a.ts → ${folder}/b.ts → ${folder}/a.ts`]);
    },
  );

  test('a cycle is named once, as the path around it', () => {
    const found = violations({
      'src/events/a.ts': "import { b } from './b.ts';\n",
      'src/events/b.ts': "import type { C } from './c.ts';\n",
      'src/events/c.ts': "export { a } from './a.ts';\n",
      'src/events/d.ts': "import './a.ts';\n",
    });
    expect(found).toEqual(['import cycle: src/events/a.ts → src/events/b.ts → src/events/c.ts → src/events/a.ts']);
  });

  test.each(['src/events/index.ts', 'src/http/utils.ts', 'src/providers/helpers/url.ts'])(
    '%s has a name that says nothing',
    (path) => {
      expect(violations({ [path]: 'export {};\n' })).toEqual([expect.stringContaining('does not say what it holds')]);
    },
  );
});

describe('reading imports', () => {
  test.each([
    ["import { a } from './a.ts';", './a.ts', false],
    ["import a, { b } from './a.ts';", './a.ts', false],
    ["import * as a from './a.ts';", './a.ts', false],
    ["import {\n  a,\n  b,\n} from './a.ts';", './a.ts', false],
    ["import './a.ts';", './a.ts', false],
    ["import type { A } from './a.ts';", './a.ts', true],
    ["export { a } from './a.ts';", './a.ts', false],
    ["export * from './a.ts';", './a.ts', false],
    ["export type { A } from './a.ts';", './a.ts', true],
    ["const a = await import('./a.ts');", './a.ts', false],
    ["type A = typeof import('./a.ts');", './a.ts', true],
  ])('%s', (source, specifier, typeOnly) => {
    expect(importsOf(source)).toEqual([{ specifier, typeOnly }]);
  });

  test.each([
    "// import { a } from './a.ts';",
    " * import { a } from './a.ts';",
    'const text = "import { a } from \'./a.ts\'";',
    "export function f() {}\nconst from = './a.ts';",
  ])('%s imports nothing', (source) => {
    expect(importsOf(source)).toEqual([]);
  });
});
