/** A provider whose answers a test writes, byte for byte. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ScriptedRequest {
  readonly method: string;
  /** Path and query as they came. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export type Script = (request: ScriptedRequest, response: ServerResponse) => void;

export interface ScriptedProvider {
  /** Ends in `/v1`. */
  readonly url: string;
  /** The newest first argument of the script. */
  last(): ScriptedRequest;
  /** The models that it lists from now on. */
  list(...models: readonly string[]): void;
  /** Sets the script of later answers. */
  script(answer: Script): void;
  close(): Promise<void>;
}

/** Lists one model, `scripted`, by default. Everything else goes to the script. */
export async function startScriptedProvider(): Promise<ScriptedProvider> {
  let script: Script = (_request, response) => response.writeHead(500).end();
  let last: ScriptedRequest | undefined;
  let models: readonly string[] = ['scripted'];
  const server = createServer(async (request, response) => {
    const { method = '', url: path = '', headers } = request;
    if (path === '/v1/models' && method === 'GET' && headers['x-scripted'] === undefined) {
      response.writeHead(200, { 'content-type': 'application/json' });
      const data = models.map((id) => ({ id, object: 'model', created: 1, owned_by: 'test' }));
      response.end(JSON.stringify({ object: 'list', data }));
      return;
    }
    const pieces: Buffer[] = [];
    try {
      for await (const piece of request) pieces.push(piece);
    } catch {
      // The request broke off: there is no client to answer.
      return;
    }
    last = { method, path, headers, body: Buffer.concat(pieces) };
    script(last, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    last() {
      if (last === undefined) throw new Error('the provider was not asked anything');
      return last;
    },
    list(...listed) {
      models = listed;
    },
    script(answer) {
      script = answer;
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
