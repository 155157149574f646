/** `chancery serve` of this tree or of another checkout of the project, on a data folder of its own. */
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { freePort, launchNode, type Server, serverOf } from './launch.ts';

export const GATEWAY_KEY = 'bench-master-key';
const START_TIMEOUT_MS = 60_000;
const THIS_TREE = fileURLToPath(new URL('../..', import.meta.url));

export interface GatewayOptions {
  readonly dataDir: string;
  /** Base URLs by the prefix of their variables: `OPENAI`, `OPENAI_SSE`, `LLAMACPP`. */
  readonly providers: Readonly<Record<string, string>>;
  /** The folder of the checkout. Default: the one this file is in. */
  readonly tree?: string;
  readonly cores?: string | undefined;
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeFlags?: readonly string[];
  /** How long it may take until it is ready. Default 60 s. */
  readonly startTimeoutMs?: number;
}

/** Analytics is off unless `env` enables it. Returns before the gateway is ready: see `startGateway`. */
export async function launchGateway(options: GatewayOptions): Promise<Server> {
  const { dataDir, providers, tree = THIS_TREE, cores, env = {}, nodeFlags = [] } = options;
  mkdirSync(dataDir, { recursive: true });
  // The checkout's own flags: they are part of the comparison.
  const { gatewayEnvironment, gatewayFlags }: typeof import('../../scripts/gateway-node.mjs') = await import(
    pathToFileURL(join(tree, 'scripts', 'gateway-node.mjs')).href
  );
  const port = await freePort();
  // A probe tells functions apart by the files of the sources.
  const bundle = nodeFlags.length === 0 ? await bundleOf(tree) : undefined;
  const child = launchNode(bundle?.main ?? join(tree, 'src', 'main.ts'), ['serve'], {
    cwd: dataDir,
    cores,
    nodeFlags: [...gatewayFlags, ...nodeFlags],
    logFile: join(dataDir, 'gateway.log'),
    env: {
      PORT: String(port),
      ...(bundle && { NODE_COMPILE_CACHE: bundle.compileCache }),
      ...gatewayEnvironment,
      HOST: '127.0.0.1',
      DATA_DIR: dataDir,
      GATEWAY_MASTER_KEY: GATEWAY_KEY,
      LOG_DURABILITY: 'standard',
      ANALYTICS_ENABLED: 'false',
      ...providerVariables(providers),
      ...env,
    },
  });
  return serverOf(child, `http://127.0.0.1:${port}`);
}

/** What `npm start` runs in a checkout; undefined in one from before bundles. */
async function bundleOf(tree: string) {
  const script = join(tree, 'scripts', 'bundle.mjs');
  if (!existsSync(script)) return undefined;
  const { prepareBundle, compileCacheOf }: typeof import('../../scripts/bundle.mjs') = await import(
    pathToFileURL(script).href
  );
  const main = await prepareBundle(resolve(tree), process.execPath);
  return main === undefined ? undefined : { main, compileCache: compileCacheOf(main) };
}

function providerVariables(providers: GatewayOptions['providers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(providers).flatMap(([prefix, baseUrl]) => [
      [`${prefix}_BASE_URL`, baseUrl],
      ...(prefix.startsWith('OPENAI') ? [[`${prefix}_API_KEY`, 'sk-simulated']] : []),
    ]),
  );
}

export async function startGateway(options: GatewayOptions): Promise<Server> {
  const gateway = await launchGateway(options);
  const { startTimeoutMs = START_TIMEOUT_MS } = options;
  const deadline = performance.now() + startTimeoutMs;
  for (;;) {
    if (gateway.end() !== undefined)
      throw new Error(`the gateway ended by ${gateway.end()}: see ${options.dataDir}/gateway.log`);
    const ready = await fetch(`${gateway.origin}/health/ready`).then(
      (response) => response.status === 200,
      () => false,
    );
    if (ready) return gateway;
    if (performance.now() > deadline) throw new Error(`the gateway was not ready within ${startTimeoutMs / 1000} s`);
    await delay(20);
  }
}
