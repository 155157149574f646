/** The reference servers of MCP behind the gateway, as processes, and the SDK's client in front of it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { mcpClient } from '../support/mcp-client.ts';
import { withGateway } from '../support/with-gateway.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'chancery-mcp-')));
writeFileSync(join(folder, 'note.txt'), 'read through the gateway');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The program of a package. */
function programOf(name: string): string {
  const packageFile = createRequire(import.meta.url).resolve(`${name}/package.json`);
  return join(dirname(packageFile), 'dist/index.js');
}

const started = (name: string, ...args: string[]) => ({
  transport: 'stdio',
  command: process.execPath,
  args: [programOf(`@modelcontextprotocol/server-${name}`), ...args],
});

const gateway = withGateway({
  env: {
    MCP_SERVERS: JSON.stringify([
      { name: 'Everything', ...started('everything', 'stdio') },
      { name: 'Files', ...started('filesystem', folder) },
    ]),
  },
});

describe('server-filesystem', () => {
  it('reads a file', async () => {
    const client = await mcpClient(gateway.url, { path: '/mcp/files' });
    const result = await client.callTool({ name: 'read_text_file', arguments: { path: join(folder, 'note.txt') } });
    expect(result).toMatchObject({ content: [{ type: 'text', text: 'read through the gateway' }] });
    await client.close();
  });
});

describe('server-everything', () => {
  it('has its tools, prompts, resources, templates and completions', async () => {
    const client = await mcpClient(gateway.url, { path: '/mcp/everything' });
    expect((await client.callTool({ name: 'echo', arguments: { message: 'hi' } })).content).toMatchObject([
      { type: 'text', text: expect.stringContaining('hi') },
    ]);
    const { prompts } = await client.listPrompts();
    expect(prompts.length).toBeGreaterThan(0);
    const simple = prompts.find(({ arguments: args = [] }) => args.length === 0);
    expect((await client.getPrompt({ name: simple?.name ?? '' })).messages.length).toBeGreaterThan(0);
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates.length).toBeGreaterThan(0);
    const { resources } = await client.listResources();
    const [first] = resources;
    expect((await client.readResource({ uri: first?.uri ?? '' })).contents.length).toBeGreaterThan(0);
    await client.close();
  });

  it('reports progress to the client that has called', async () => {
    const client = await mcpClient(gateway.url, { path: '/mcp/everything' });
    const progress: number[] = [];
    const { tools } = await client.listTools();
    const long = tools.find(({ name }) => /long/i.test(name))?.name ?? '';
    await client.callTool(
      { name: long, arguments: { duration: 0.5, steps: 3 } },
      { onprogress: ({ progress: step }) => progress.push(step) },
    );
    expect(progress.length).toBeGreaterThanOrEqual(2);
    await client.close();
  });

  it('asks the client, through the gateway', async () => {
    const client = await mcpClient(gateway.url, {
      ...{
        path: '/mcp/everything',
        capabilities: { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } },
      },
    });
    client.setRequestHandler('elicitation/create', async () => ({
      action: 'accept',
      content: { name: 'Ada', check: true },
    }));
    client.setRequestHandler('sampling/createMessage', async () => ({
      ...{ role: 'assistant', model: 'of the client', content: { type: 'text', text: 'sampled by the client' } },
    }));
    client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///work', name: 'work' }] }));
    const { tools } = await client.listTools();
    const sampling = tools.find(({ name }) => /sampling/i.test(name) && !/async/i.test(name))?.name ?? '';
    const sampled = await client.callTool({ name: sampling, arguments: { prompt: 'say it', maxTokens: 10 } });
    expect(JSON.stringify(sampled)).toContain('sampled by the client');
    const elicitation = tools.find(({ name }) => /elicitation/i.test(name) && !/async|url/i.test(name))?.name ?? '';
    expect(JSON.stringify(await client.callTool({ name: elicitation, arguments: {} }))).toContain('Ada');
    await client.close();
  });

  it('is one of several at /mcp', async () => {
    const client = await mcpClient(gateway.url);
    const { tools } = await client.listTools();
    const slugs = new Set(tools.map(({ name }) => name.split('_', 1)[0]));
    expect([...slugs].sort()).toEqual(['everything', 'files']);
    const { resources } = await client.listResources();
    expect((await client.readResource({ uri: resources[0]?.uri ?? '' })).contents.length).toBeGreaterThan(0);
    const { prompts } = await client.listPrompts();
    expect(prompts[0]?.name.startsWith('everything_')).toBe(true);
    await client.close();
  });
});

describe.each(['sse', 'streamable_http'] as const)('server-everything over %s', (transport) => {
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const child = spawn(
    process.execPath,
    [programOf('@modelcontextprotocol/server-everything'), transport === 'sse' ? 'sse' : 'streamableHttp'],
    {
      env: { PATH: process.env['PATH'], PORT: String(port) },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const listening = Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data')]);
  afterAll(() => void child.kill('SIGKILL'));

  const remote = withGateway(async () => {
    await listening;
    const url = `http://127.0.0.1:${port}/${transport === 'sse' ? 'sse' : 'mcp'}`;
    return { env: { MCP_SERVERS: JSON.stringify([{ name: 'Remote', url, transport }]) } };
  });

  it('has its tools, and asks the client', async () => {
    const client = await mcpClient(remote.url, { path: '/mcp/remote', capabilities: { sampling: {} } });
    client.setRequestHandler('sampling/createMessage', async () => ({
      ...{ role: 'assistant', model: 'of the client', content: { type: 'text', text: 'sampled by the client' } },
    }));
    expect((await client.callTool({ name: 'echo', arguments: { message: 'hi' } })).content).toMatchObject([
      { text: expect.stringContaining('hi') },
    ]);
    const { tools } = await client.listTools();
    const sampling = tools.find(({ name }) => /sampling/i.test(name) && !/async/i.test(name))?.name ?? '';
    const sampled = await client.callTool({ name: sampling, arguments: { prompt: 'say it', maxTokens: 10 } });
    expect(JSON.stringify(sampled)).toContain('sampled by the client');
    await client.close();
  });
});
