/** Stands in for a ClickHouse server: records its requests, and answers the gateway's queries about the server. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

export interface Sent {
  readonly user: string;
  readonly password: string;
  readonly query: string;
  readonly settings: Readonly<Record<string, string>>;
}

export interface StandIn {
  readonly url: string;
  readonly sent: Sent[];
  /** What it answers instead, by a part of the query: rows, or an error of ClickHouse by its code. */
  readonly answers: Map<string, string | number>;
  close(): Promise<void>;
}

const FUNCTIONS = ['count', 'sum', 'file', 'now', 'tostring'];

export async function startStandIn(): Promise<StandIn> {
  const sent: Sent[] = [];
  const answers = new Map<string, string | number>();
  const server = createServer(async (request, reply) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const [user = '', password = ''] = Buffer.from(request.headers.authorization?.split(' ')[1] ?? '', 'base64')
      .toString()
      .split(':');
    const query = `${url.searchParams.get('query') ?? ''}${await text(request)}`.trim();
    sent.push({ user, password, query, settings: Object.fromEntries(url.searchParams) });
    const answer = [...answers].find(([part]) => query.includes(part))?.[1] ?? usual(query);
    if (typeof answer === 'number') {
      reply.writeHead(answer === 516 ? 403 : 500, { 'x-clickhouse-exception-code': String(answer) });
      reply.end(`Code: ${answer}. DB::Exception: refused by the stand-in. (SOME_ERROR)\n`);
    } else reply.writeHead(200, { 'content-type': 'text/tab-separated-values; charset=UTF-8' }).end(answer);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    sent,
    answers,
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function usual(query: string): string {
  const form = /^SELECT formatQuerySingleLine\('((?:[^'\\]|\\.)*)'\)/s.exec(query)?.[1];
  if (form !== undefined) return form.replaceAll(/\\(.)/gs, '$1').replaceAll(/\s+/g, ' ');
  if (query.includes('FROM system.functions')) return `0\n${FUNCTIONS.join('\n')}\n`;
  return 'the answer\n';
}
