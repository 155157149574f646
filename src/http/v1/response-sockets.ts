/** `GET /v1/responses`: responses over a WebSocket. What serves the sockets is loaded with the first one. */
import { refusals } from '../../commands/refusal.ts';
import { anyKey, emptyAnswer, type Routes } from '../api/route-schema.ts';
import { upgradeOf } from '../upgrade.ts';
import type { ResponseSocketsOptions } from './response-socket.ts';

const connect = anyKey('connectResponses', 'Create responses over a WebSocket', {
  description: 'An upgrade to a WebSocket; see docs/websocket.md.',
  tag: 'responses',
  exposeHeadRoute: false,
  response: { 101: emptyAnswer('The connection is a WebSocket') },
  errors: [400, 426, 429, 503],
});

/** What a handshake needs beside the header `Upgrade` (RFC 6455 §4.2.1). */
const KEY = /^[+/0-9A-Za-z]{22}==$/;
const VERSION = '13';

export function registerResponseSockets(app: Routes, options: ResponseSocketsOptions): void {
  const load = async () => new (await import('./response-socket.ts')).ResponseSockets(options, app.bodyMemory);
  let sockets: ReturnType<typeof load> | undefined;
  app.get('/v1/responses', connect, async (request, reply) => {
    const { headers, raw } = request;
    const upgrade = upgradeOf(raw);
    if (upgrade === undefined || headers['sec-websocket-version'] !== VERSION) {
      reply.headers({ upgrade: 'websocket', 'sec-websocket-version': VERSION });
      throw refusals.notAWebSocket();
    }
    if (!KEY.test(headers['sec-websocket-key'] ?? '')) {
      throw refusals.invalidRequest('The handshake of the WebSocket is not valid.', 'sec-websocket-key');
    }
    sockets ??= load();
    (await sockets).accept(request, reply, upgrade);
  });
  app.addHook('preClose', async () => (await sockets)?.close());
}
