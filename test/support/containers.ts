/**
 * Servers in containers, by testcontainers: it finds Docker or Podman by `DOCKER_HOST`, the current context or a socket,
 * and removes the containers of a run that was killed. The module is loaded by the first call, because it takes 150 ms.
 */
import type { StartedTestContainer, Wait, WaitStrategy } from 'testcontainers';
import { freePort } from '../../infra/kafka/free-port.ts';

const READY_WITHIN_MS = 120_000;

export interface ContainerDefinition {
  readonly image: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Where the server listens in the container. */
  readonly port: number;
  /** Default: a free one. */
  readonly publishedPort?: number;
  ready(wait: typeof Wait): WaitStrategy;
}

export interface RunningContainer {
  /** `host:port`, the same after `restart`. */
  readonly address: string;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again on its data; resolves when it is ready. */
  restart(): Promise<void>;
  /** Removes it, whether it runs or not. */
  stop(): Promise<void>;
}

/** Where published ports of containers are reached, or undefined when no container runtime runs. */
export async function containerHost(): Promise<string | undefined> {
  const { getContainerRuntimeClient } = await import('testcontainers');
  try {
    const { host } = (await getContainerRuntimeClient()).info.containerRuntime;
    return host === 'localhost' ? '127.0.0.1' : host;
  } catch {
    return undefined;
  }
}

/** @throws when no container runtime runs, and when the server is not ready within two minutes */
export async function startContainer(definition: ContainerDefinition): Promise<RunningContainer> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const host = await containerHost();
  const port = definition.publishedPort ?? (await freePort());
  // A port that the runtime chooses would be another one after a restart.
  const container = await new GenericContainer(definition.image)
    .withEnvironment({ ...definition.environment })
    .withExposedPorts({ container: definition.port, host: port })
    .withWaitStrategy(definition.ready(Wait).withStartupTimeout(READY_WITHIN_MS))
    .start();
  return {
    address: `${host}:${port}`,
    kill: () => killContainer(container),
    restart: () => container.restart(),
    stop: async () => void (await container.stop()),
  };
}

/** `container.stop` works once only, and a killed server is to be killed again after its restart. */
async function killContainer(container: StartedTestContainer): Promise<void> {
  const { getContainerRuntimeClient } = await import('testcontainers');
  const runtime = await getContainerRuntimeClient();
  await runtime.container.getById(container.getId()).kill();
}
