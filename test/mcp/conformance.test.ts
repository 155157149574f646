/** Every server scenario of `@modelcontextprotocol/conformance`, against the gateway in front of a server. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({
  env: {
    // The suite sends no key.
    GATEWAY_UNSAFE_OPEN: 'true',
    MCP_SERVERS: JSON.stringify([
      {
        ...{ name: 'Suite', transport: 'stdio', command: process.execPath },
        args: [join(import.meta.dirname, 'conformance-server.ts')],
      },
    ]),
  },
});

const folder = mkdtempSync(join(tmpdir(), 'chancery-mcp-suite-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const packageFile = createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json');
const program = join(dirname(packageFile), 'dist/index.js');

describe('the conformance suite', () => {
  it('passes', async () => {
    const args = [program, 'server', '--url', `${gateway.url}/mcp/suite`, '--suite', 'all'];
    const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
    const exited = new Promise<number | null>((resolve) => child.once('close', resolve));
    const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(await exited, `${output}\n${errors}`).toBe(0);
  }, 120_000);
});
