/** One client with one connection, which keeps every byte it gets. */
import http from 'node:http';
import { MASTER_KEY } from '../e2e/gateway-process.ts';
import type { Answer, SentRequest } from './evidence.ts';

const PAUSE_MS = 20;

/** The connection of a client, to one gateway or to several. */
export interface Wire {
  /** Never rejects: a broken connection is a result too. */
  ask(sentRequest: SentRequest): Promise<Answer>;
  /** Whether no further request can be answered after this answer. */
  isOver(answer: Answer): boolean;
}

export class WireClient implements Wire {
  readonly #url: string;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

  readonly #answered: () => void;

  /** @param answered called after each answer */
  constructor(url: string, answered: () => void = () => {}) {
    this.#url = url;
    this.#answered = answered;
  }

  /** The gateway is gone. */
  isOver({ status }: Answer): boolean {
    return status === undefined;
  }

  ask(sentRequest: SentRequest): Promise<Answer> {
    const { method, path, body, requestId, idempotencyKey, leaveAfterBytes } = sentRequest;
    const headers: http.OutgoingHttpHeaders = { authorization: `Bearer ${MASTER_KEY}`, ...sentRequest.headers };
    if (requestId !== undefined) headers['x-request-id'] = requestId;
    if (idempotencyKey !== undefined) headers['idempotency-key'] = idempotencyKey;
    if (body !== undefined) {
      headers['content-type'] = 'application/json';
      headers['content-length'] = body.length;
    }
    const sentAt = performance.now();
    return new Promise((resolve) => {
      const parts: Buffer[] = [];
      let size = 0;
      let left = false;
      let response: http.IncomingMessage | undefined;
      const finish = () => {
        const answer: Answer = {
          status: response?.statusCode,
          headers: joined(response?.headers ?? {}),
          body: Buffer.concat(parts),
          // One that has left takes nothing more, although the end may have arrived already.
          end: left ? 'left' : response?.complete === true ? 'whole' : 'cut',
          url: this.#url,
          sentAt,
          endedAt: performance.now(),
        };
        // Refused at once: the next request would be, too.
        if (answer.status === 503) setTimeout(resolve, PAUSE_MS, answer);
        else resolve(answer);
        this.#answered();
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
