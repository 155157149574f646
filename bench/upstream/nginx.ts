/** nginx with canned bodies: the cheapest upstream, about 10 µs of processor time for a request. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cores } from '../servers/cores.ts';
import { freePort, launch, listening, type Server, serverOf } from '../servers/launch.ts';
import { chatJson, chatSse, modelsJson } from './canned.ts';

const PROGRAM = 'nginx';
/** nginx refuses longer words in its configuration (4,096 bytes with their quotes). */
const MAX_WORD = 3500;

export function hasNginx(): boolean {
  try {
    execFileSync(PROGRAM, ['-v'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Answers `/json/v1/chat/completions` with JSON and `/sse/v1/chat/completions` with a whole stream. */
export async function startNginx(): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-bench-nginx-'));
  const port = await freePort();
  const file = join(folder, 'nginx.conf');
  const locations = location('json', 'application/json', chatJson) + location('sse', 'text/event-stream', chatSse);
  writeFileSync(file, configuration(folder, `server {\nlisten 127.0.0.1:${port} backlog=4096;\n${locations}}`));
  const child = launch([PROGRAM, '-p', folder, '-c', file], { cores: cores.rest });
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  child.once('exit', () => {
    process.removeListener('exit', remove);
    remove();
  });
  return listening(serverOf(child, `http://127.0.0.1:${port}`));
}

/** For nginx in the foreground, as one process without logs. */
function configuration(folder: string, servers: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${folder};`);
  return `daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log stderr crit;
worker_rlimit_nofile 16384;
events { worker_connections 8192; multi_accept on; }
http {
access_log off;
tcp_nodelay on;
keepalive_requests 1000000000;
keepalive_timeout 1h;
client_body_buffer_size 1m;
client_max_body_size 64m;
default_type application/json;
${temporary.join('\n')}
${servers}}
`;
}

function location(kind: string, type: string, chat: string): string {
  const pieces = Array.from({ length: Math.ceil(chat.length / MAX_WORD) }, (_, at) =>
    chat.slice(at * MAX_WORD, (at + 1) * MAX_WORD),
  );
  const variables = pieces.map((_, at) => `$${kind}${at}`);
  return `${pieces.map((piece, at) => `set ${variables[at]} ${quoted(piece)};`).join('\n')}
location = /${kind}/v1/models { return 200 ${quoted(modelsJson)}; }
location = /${kind}/v1/chat/completions { default_type ${type}; return 200 "${variables.join('')}"; }
`;
}

function quoted(text: string): string {
  if (/['\\$]/.test(text)) throw new Error(`nginx would read this in its own way: ${text}`);
  return `'${text}'`;
}
