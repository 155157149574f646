/**
 * The reference: the least work of a gateway on Fastify and undici. It passes the body on
 * unchanged, relays status and headers, buffers JSON answers (measured faster than piping them) and streams the rest.
 *
 *   node bench/bare-passthrough.ts <port> <origin of the provider>
 */
import Fastify, { type FastifyRequest } from 'fastify';
import { type Dispatcher, Pool } from 'undici';

const [port = '4020', origin = 'http://127.0.0.1:4010'] = process.argv.slice(2);
const pool = new Pool(origin, { connections: 8192, bodyTimeout: 0, headersTimeout: 600_000 });
const app = Fastify({ logger: false, bodyLimit: 64 * 1024 * 1024 });

app.removeAllContentTypeParsers();
app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));

const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'proxy-authorization',
]);

function headersFor(request: FastifyRequest): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined && name !== 'host' && name !== 'content-length' && !HOP_BY_HOP.has(name))
      headers[name] = value;
  }
  return headers;
}

app.all('/*', async (request, reply) => {
  const answer = await pool.request({
    method: request.method as Dispatcher.HttpMethod,
    path: request.url,
    headers: headersFor(request),
    body: request.body instanceof Buffer ? request.body : null,
  });
  reply.code(answer.statusCode);
  for (const [name, value] of Object.entries(answer.headers)) {
    if (value !== undefined && !HOP_BY_HOP.has(name)) reply.header(name, value);
  }
  if (String(answer.headers['content-type']).startsWith('application/json')) {
    return reply.send(Buffer.from(await answer.body.arrayBuffer()));
  }
  return reply.send(answer.body);
});

await app.listen({ port: Number(port), host: '127.0.0.1', backlog: 1024 });
console.log(`bare pass-through listening on http://127.0.0.1:${port}`);
process.once('SIGTERM', () => void Promise.all([app.close(), pool.destroy()]).then(() => process.exit(0)));
