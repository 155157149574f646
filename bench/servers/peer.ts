/** Any other server, started by the command of a small JSON file. See README.md. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { UpstreamName, Upstreams } from '../upstream/start-upstreams.ts';
import { cores } from './cores.ts';
import { becomeIdle } from './idle.ts';
import { freePort, launch, listening, serverOf } from './launch.ts';
import type { Start, Subject } from './subject.ts';

const peerFile = z.strictObject({
  name: z.string().min(1),
  command: z.string().min(1),
  args: z.array(z.string()).default([]),
  env: z.record(z.string(), z.string()).default({}),
  /** Configuration files: the name in `{folder}`, and the template beside the JSON file. */
  files: z.record(z.string(), z.string()).default({}),
  /** A fixed port. Default: a free one, inserted for `{port}`. */
  port: z.int().positive().optional(),
  /** The upstreams that it can serve, one process for each. */
  upstreams: z
    .array(z.enum(['instant', 'timed']))
    .min(1)
    .optional(),
  /** `{route}` stands for the first part of the upstream's path. */
  path: z.string().startsWith('/').default('/{route}/v1/chat/completions'),
  headers: z.record(z.string(), z.string()).default({}),
  model: z.string().default('canned'),
  /** Whether answers differ from the upstream's, in ids for instance. */
  rewrites: z.boolean().default(false),
});

export interface Peer extends z.infer<typeof peerFile> {
  /** Of the file. */
  readonly folder: string;
}

export function readPeer(file: string): Peer {
  return { ...peerFile.parse(JSON.parse(readFileSync(file, 'utf8'))), folder: dirname(file) };
}

/** `folder`: where its own is made. */
export async function startPeer(peer: Peer, folder: string, upstreams: Upstreams, start: Start): Promise<Subject> {
  const names = peer.upstreams ?? (peer.port === undefined ? (['instant', 'timed'] as const) : (['instant'] as const));
  if (peer.port !== undefined && names.length > 1) {
    throw new Error(
      `${peer.name}: one process for each upstream is started, so they need free ports: leave out "port"`,
    );
  }
  const started = new Map(
    await Promise.all(
      names.map(
        async (name) =>
          [
            name,
            await start(startOne(peer, join(folder, `${peer.name}-${name}`), upstreams.servers[name].origin)),
          ] as const,
      ),
    ),
  );
  const serverFor = (name: UpstreamName) => {
    const server = started.get(name);
    if (server === undefined) throw new Error(`${peer.name} does not stand in front of the ${name} upstream`);
    return server;
  };
  const { path, headers, model, rewrites } = peer;
  return {
    name: peer.name,
    kind: 'peer',
    isAlone: false,
    subjectRequest: (upstream) => {
      const server = started.get(upstream);
      const { origin } = upstreams.servers[upstream];
      const sent = Object.entries(headers).map(([name, value]) => [name, value.replace('{upstream}', origin)]);
      return (
        server && { origin: server.origin, isGateway: false, headers: Object.fromEntries(sent), path, model, rewrites }
      );
    },
    process: serverFor,
    rest: () => becomeIdle([...started.values()].map(({ pid }) => pid)),
  };
}

async function startOne(peer: Peer, folder: string, upstream: string) {
  const port = peer.port ?? (await freePort());
  const filled = (text: string) =>
    text
      .replaceAll('{port}', String(port))
      .replaceAll('{upstream}', upstream)
      .replaceAll('{upstream_address}', new URL(upstream).host)
      .replaceAll('{folder}', folder);
  mkdirSync(folder, { recursive: true });
  for (const [name, template] of Object.entries(peer.files)) {
    writeFileSync(join(folder, name), filled(readFileSync(join(peer.folder, template), 'utf8')));
  }
  const child = launch([peer.command, ...peer.args.map(filled)], {
    cwd: folder,
    cores: cores.server,
    env: Object.fromEntries(Object.entries(peer.env).map(([name, value]) => [name, filled(value)])),
    logFile: join(folder, 'output.log'),
  });
  return listening(serverOf(child, `http://127.0.0.1:${port}`));
}
