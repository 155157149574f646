/** One client with one connection, which keeps every byte it gets. */
import http from 'node:http';
import { MASTER_KEY } from '../e2e/gateway-process.ts';
import type { Answer, SentRequest } from './evidence.ts';

export class WireClient {
  readonly #url: string;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

  constructor(url: string) {
    this.#url = url;
  }

  /** Never rejects: a broken connection is a result too. */
  ask(sentRequest: SentRequest): Promise<Answer> {
    const { method, path, body, requestId, idempotencyKey, leaveAfterBytes } = sentRequest;
    const headers: http.OutgoingHttpHeaders = { ...sentRequest.headers, authorization: `Bearer ${MASTER_KEY}` };
    if (requestId !== undefined) headers['x-request-id'] = requestId;
    if (idempotencyKey !== undefined) headers['idempotency-key'] = idempotencyKey;
    if (body !== undefined) {
      headers['content-type'] = 'application/json';
      headers['content-length'] = body.length;
    }
    return new Promise((resolve) => {
      const parts: Buffer[] = [];
      let size = 0;
      let left = false;
      let response: http.IncomingMessage | undefined;
      const finish = () => {
        resolve({
          status: response?.statusCode,
          headers: joined(response?.headers ?? {}),
          body: Buffer.concat(parts),
          end: response?.complete === true ? 'whole' : left ? 'left' : 'cut',
          endedAt: performance.now(),
        });
      };
      const request = http.request(new URL(path, this.#url), { method, headers, agent: this.#agent });
      request.on('error', () => {
        if (response === undefined) finish();
      });
      request.on('response', (arrived) => {
        response = arrived;
        arrived.on('data', (part: Buffer) => {
          parts.push(part);
          size += part.length;
          if (leaveAfterBytes === undefined || size < leaveAfterBytes || left) return;
          left = true;
          request.destroy();
        });
        // A broken connection emits 'error' and then 'close', a whole answer 'close' alone.
        arrived.on('error', () => {});
        arrived.on('close', finish);
      });
      request.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

function joined(headers: http.IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
  );
}
