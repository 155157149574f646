/** Virtual models, and their surroundings, for tests that need no gateway. */
import type { Target } from '../../src/commands/model-request/routing-types.ts';
import type { VirtualModelContext } from '../../src/commands/virtual-models/decider.ts';
import type { VirtualModel, VirtualTarget } from '../../src/commands/virtual-models/virtual-model.ts';

type Written = Partial<Omit<VirtualModel, 'source' | 'targets'>>;

/** Leads to models that are written as `<provider>/<model>`, or as a name alone. */
export function redirect(
  source: string,
  targets: readonly (string | VirtualTarget)[],
  more: Written = {},
): VirtualModel {
  return {
    source,
    targets: targets.map((target) => (typeof target === 'string' ? targetOf(target) : target)),
    strategy: 'round_robin',
    sessionAffinity: true,
    failover: { enabled: true },
    userPaths: [],
    enabled: true,
    ...more,
  };
}

export function policy(source: string, more: Written = {}): VirtualModel {
  return redirect(source, [], more);
}

function targetOf(text: string): VirtualTarget {
  const slash = text.indexOf('/');
  return slash === -1 ? { model: text } : { provider: text.slice(0, slash), model: text.slice(slash + 1) };
}

export function mapOf(models: readonly VirtualModel[]): ReadonlyMap<string, VirtualModel> {
  return new Map(models.map((model) => [model.source, model]));
}

export function around(models: readonly VirtualModel[], more: Partial<VirtualModelContext> = {}): VirtualModelContext {
  return { models: mapOf(models), isDeclared: () => false, serves: () => true, enabledByDefault: true, ...more };
}

const providers = new Map<string, Target['provider']>();

/** A target of a provider that does nothing; the same provider object for the same name. */
export function target(provider: string, model: string): Target {
  let made = providers.get(provider);
  if (made === undefined) {
    const unused = () => {
      throw new Error('it is never asked');
    };
    made = {
      name: provider,
      type: 'llamacpp',
      address: 'http://127.0.0.1/v1',
      capabilities: {
        chat: 'yes',
        responses: 'no',
        embeddings: 'yes',
        responseLifecycle: 'no',
        serves: [],
        passthrough: true,
      },
      options: {},
      answerLimit: { ms: 1000, setting: 'HTTP_TIMEOUT' },
      pathOf: unused,
      listModels: unused,
      send: unused,
      forward: unused,
      remembers: () => false,
      canSteer: () => false,
      pausedMs: () => 0,
      learnResponses: unused,
      redact: (text) => text,
      close: unused,
    };
    providers.set(provider, made);
  }
  return { provider: made, model };
}

/** `<provider>/<model>` of a target. */
export function named({ provider, model }: Target): string {
  return `${provider.name}/${model}`;
}
