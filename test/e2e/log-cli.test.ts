import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import {
  ask,
  type GatewayProcess,
  killAll,
  root,
  type ServedGateway,
  serve,
  startProcess,
  temporaryFolder,
} from './gateway-process.ts';

const folder = temporaryFolder();
const dataDir = join(folder.path, 'data');
const provider = createSimulatedProvider({ responses: 'absent' });
const chunks = 6;
let gateway: ServedGateway;

beforeAll(async () => {
  gateway = await serve({ dataDir, env: { LLAMACPP_BASE_URL: await provider.listen() } });
});
afterEach(() => provider.control.release());
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

/** `chancery …` from the command line, on the data folder of the running gateway. */
function chancery(...args: string[]): GatewayProcess {
  return startProcess({
    command: [process.execPath, join(root, 'scripts/chancery.mjs')],
    args,
    env: { DATA_DIR: dataDir },
  });
}

async function output(...args: string[]): Promise<{ code: number | null; lines: string[] }> {
  const command = chancery(...args);
  const { code } = await command.exited;
  return { code, lines: `${command.stdout}${command.stderr}`.trimEnd().split('\n') };
}

async function streamedChat(): Promise<Response> {
  const messages = [{ role: 'user', content: 'Tell me something.' }];
  return ask(gateway.url, '/v1/chat/completions', {
    json: { model: 'llamacpp/simulated-small', stream: true, messages, simulate: { chunks } },
  });
}

describe('chancery log cat', () => {
  it('shows a streamed request from its start over every chunk to its end and its usage', async () => {
    const response = await streamedChat();
    const text = await response.text();
    const { code, lines } = await output('log', 'cat', `exchange-${response.headers.get('x-exchange-id')}`, '--json');
    expect(code).toBe(0);
    const events = lines.map((line) => JSON.parse(line));
    expect(events.map(({ type }) => type).filter((type) => type !== 'chunk.received')).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'exchange.completed',
      'usage.recorded',
    ]);
    const pieces = events.filter(({ type }) => type === 'chunk.received');
    expect(pieces.map(({ data }) => data.index)).toEqual(pieces.map((_, index) => index));
    // The opening, the text, the finish, the usage that only the gateway asked for, and [DONE].
    expect(pieces).toHaveLength(chunks + 4);
    const passedOn = pieces.map(({ body }) => body).filter((body) => !body.includes('"choices":[]'));
    expect(passedOn.join('')).toBe(text);
    expect(events.map(({ revision }) => Number(revision))).toEqual(events.map((_, index) => index));
  });

  it('shows it as text too, one event after the other', async () => {
    const response = await streamedChat();
    await response.text();
    const { lines } = await output('log', 'cat', `exchange-${response.headers.get('x-exchange-id')}`);
    const types = lines.map((line) => /\S+@\d+ {2}([a-z._]+)/.exec(line)?.[1]).filter((type) => type !== undefined);
    expect(types[0]).toBe('request.received');
    expect(types.filter((type) => type === 'chunk.received')).toHaveLength(chunks + 4);
    expect(types.slice(-2)).toEqual(['exchange.completed', 'usage.recorded']);
    expect(lines.join('\n')).not.toContain('process-test-key');
  });

  it('fails with a message for an unknown stream', async () => {
    const command = chancery('log', 'cat', 'exchange-nobody');
    expect((await command.exited).code).toBe(1);
    expect(command.stderr).toContain('exchange-nobody');
  });
});

describe('chancery log tail --follow', () => {
  it('shows a stream while it runs', async () => {
    const tail = chancery('log', 'tail', '--follow', '--last', '0', '--json', '--stream', 'exchange-');
    const shown = () =>
      tail.stdout
        .split('\n')
        .filter((line) => line.endsWith('}'))
        .map((line) => JSON.parse(line));
    // It follows from the moment at which it has opened the log; only an event shows that moment.
    await expect
      .poll(
        async () => {
          await (await streamedChat()).text();
          return shown().length;
        },
        { timeout: 10_000 },
      )
      .toBeGreaterThan(0);

    provider.control.next({ chunks, holdAfterChunks: 3 });
    const response = await streamedChat();
    const stream = `exchange-${response.headers.get('x-exchange-id')}`;
    const types = () =>
      shown()
        .filter((event) => event.stream === stream)
        .map(({ type }) => type);
    await expect.poll(() => types().filter((type) => type === 'chunk.received').length).toBe(3);
    expect(types()).not.toContain('exchange.completed');
    provider.control.release();
    await response.text();
    await expect.poll(() => types().slice(-2)).toEqual(['exchange.completed', 'usage.recorded']);
    tail.kill('SIGINT');
    expect((await tail.exited).code).toBe(0);
  });
});

describe("a live gateway's log", () => {
  it('is measured by chancery log stat', async () => {
    await (await streamedChat()).text();
    const { code, lines } = await output('log', 'stat', '--json');
    expect(code).toBe(0);
    expect(JSON.stringify(JSON.parse(lines.join('')))).toMatch(/"events":\d{2,}/);
    expect((await output('log', 'stat')).code).toBe(0);
  });

  it('is verified by chancery log check, also while it is written', async () => {
    let checked = false;
    const load = (async () => {
      while (!checked) await (await streamedChat()).text();
    })();
    const { code, lines } = await output('log', 'check');
    checked = true;
    await load;
    expect([code, lines.join('\n')]).toEqual([0, expect.stringMatching(/./)]);
  });
});
