/** Users, passwords and TLS, on the stand-in, which checks them like the server. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEventStoreEngine } from '../../../src/events/eventstore/eventstore-engine.ts';
import { EngineUnavailable, EngineUnsuitable, type LogEngineAccess } from '../../../src/events/replicated/engine.ts';
import { type Authority, createAuthority } from '../../support/certificates.ts';
import { type RunningStandIn, startStandIn } from '../../support/start-eventstore.ts';
import { append, numbersOf, readTo } from './appends.ts';

let authority: Authority;
let server: RunningStandIn;
let ca: string;

beforeAll(async () => {
  authority = createAuthority();
  const { certFile, keyFile } = authority.issue('localhost', 'DNS:localhost,IP:127.0.0.1');
  ca = authority.ca.cert;
  const users = { admin: 'changeit', reader: 'reads-streams' };
  server = await startStandIn({ users, cert: certFile, key: keyFile });
});
afterAll(async () => {
  await server.stop();
  authority.remove();
});

async function failureOfOpen(access: Partial<LogEngineAccess> = {}): Promise<Error> {
  const engine = createEventStoreEngine({ url: server.url('log'), user: 'admin', password: 'changeit', ca, ...access });
  try {
    await engine.open();
  } catch (error) {
    if (error instanceof Error) return error;
  } finally {
    await engine.close();
  }
  throw new Error('it was opened');
}

function createdBy(other: Authority): string {
  other.remove();
  return other.ca.cert;
}

describe('access to EventStoreDB', () => {
  it('opens with TLS and a valid user, in the address or apart', async () => {
    const address = server.url('log');
    const inAddress = createEventStoreEngine({ url: address.replace('esdb://', 'esdb://admin:changeit@'), ca });
    await inAddress.open();
    await inAddress.append([append({ number: 1 })]);
    const apart = createEventStoreEngine({ url: address, user: 'admin', password: 'changeit', ca });
    await apart.open();
    expect(numbersOf((await readTo(apart, 1)).appends)).toEqual([1]);
    await Promise.all([inAddress.close(), apart.close()]);
  });

  it.each([
    ['a wrong password', 'admin', 's3cret-wrong'],
    ['no user', undefined, undefined],
    ['a user that may not read $all', 'reader', 'reads-streams'],
  ])('is unsuitable with %s, and the error does not contain the password', async (_, user, password) => {
    const error = await failureOfOpen({ user, password });
    expect(error).toBeInstanceOf(EngineUnsuitable);
    expect(error.message).toContain('$all');
    if (password !== undefined) expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(password);
  });

  it.each([
    ['another authority', () => ({ ca: createdBy(createAuthority()) }), 'certificate'],
    ['the authorities of Node', () => ({ ca: undefined }), 'certificate'],
    ['another host name', () => ({ url: server.url('log').replace('localhost', '127.1') }), 'altnames'],
    [
      'plain text',
      () => ({ url: `${server.url('log')}?tls=false`, user: undefined, password: undefined }),
      'servers with TLS (tls=true)',
    ],
  ])('is unavailable with %s, and the reason says so', async (_what, access, reason) => {
    const error = await failureOfOpen(access());
    expect(error).toBeInstanceOf(EngineUnavailable);
    expect(error.message).toContain(reason);
  });

  it('is refused before it is contacted when the file of LOG_TLS_CA has no certificate', async () => {
    const open = () => createEventStoreEngine({ url: server.url('log'), ca: 'not a certificate' });
    expect(open).toThrow(EngineUnsuitable);
  });

  it('is unavailable when nothing listens', async () => {
    const engine = createEventStoreEngine({ url: 'esdb://admin:s3cret@127.0.0.1:1/log' });
    const error: unknown = await engine.open().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(EngineUnavailable);
    expect(inspect(error, { depth: 9 })).not.toContain('s3cret');
    await engine.close();
  });

  it('finds the leader of a cluster by gossip', async () => {
    const address = server.url('log').replace('localhost', 'localhost:1,localhost');
    const engine = createEventStoreEngine({ url: address, user: 'admin', password: 'changeit', ca });
    await engine.open();
    await engine.close();
  });

  it('lets the process end after close', async () => {
    const program = `
      import { createEventStoreEngine } from '${join(import.meta.dirname, '../../../src/events/eventstore/eventstore-engine.ts')}';
      import { append, readTo } from '${join(import.meta.dirname, 'appends.ts')}';
      const engine = createEventStoreEngine(JSON.parse(process.env.ACCESS));
      await engine.open();
      await engine.append([append({ number: 77 })]);
      const reading = engine.read(undefined, new AbortController().signal)[Symbol.asyncIterator]();
      await readTo(engine, 77);
      await reading.next();
      const waiting = (async () => { for (;;) if ((await reading.next()).done) return; })().catch((error) => console.log(error.constructor.name));
      await engine.close();
      await waiting;
      console.log('closed');
      process.on('exit', () => console.log('ended'));
    `;
    const access = { url: server.url('log'), user: 'admin', password: 'changeit', ca };
    const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], {
      env: { ...process.env, ACCESS: JSON.stringify(access) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (piece) => {
      output += piece;
    });
    const [code] = await once(child, 'close');
    expect(output).toBe('EngineUnavailable\nclosed\nended\n');
    expect(code).toBe(0);
  });
});
