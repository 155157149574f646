/**
 * A provider of embeddings whose vectors a test chooses in its texts: `topic=3 angle=10` is 10 degrees away from
 * `topic=3 angle=0`, and from other topics at least as far as the angles are from 90.
 */
import { afterAll } from 'vitest';
import { type Script, startScriptedProvider } from './scripted-provider.ts';

export const EMBEDDED_DIMENSIONS = 64;

export interface TestEmbedder {
  /** The environment of a gateway that uses it, which the first call starts. */
  env(): Promise<Record<string, string>>;
  /** The texts that it embedded. */
  readonly texts: string[];
  /** Replaces its answers; undefined restores them. */
  script(answer: Script | undefined): void;
}

export function withEmbedder(): TestEmbedder {
  let provider: Awaited<ReturnType<typeof startScriptedProvider>> | undefined;
  const texts: string[] = [];
  const embeds: Script = ({ path, body }, response) => {
    if (path !== '/v1/embeddings') return void response.writeHead(404).end();
    const { input }: { input: string } = JSON.parse(body.toString());
    texts.push(input);
    const embedding = Buffer.from(vectorOf(input).buffer).toString('base64');
    const usage = { prompt_tokens: 3, total_tokens: 3 };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ object: 'list', data: [{ object: 'embedding', index: 0, embedding }], usage }));
  };
  afterAll(() => provider?.close());
  return {
    texts,
    async env() {
      if (provider === undefined) {
        provider = await startScriptedProvider();
        provider.list('embedder');
        provider.script(embeds);
      }
      return {
        ...{ LLAMACPP_EMBED_BASE_URL: provider.url, RESPONSE_CACHE_ENABLED: 'true', SEMANTIC_CACHE_ENABLED: 'true' },
        ...{ SEMANTIC_CACHE_EMBEDDER_MODEL: 'embedder', SEMANTIC_CACHE_EMBEDDER_PROVIDER: 'llamacpp-embed' },
      };
    },
    script: (answer) => provider?.script(answer ?? embeds),
  };
}

function vectorOf(text: string): Float32Array {
  const [, topic = '0', degrees = '0'] = /topic=(\d+) angle=(\d+)/.exec(text) ?? [];
  const radians = (Number(degrees) * Math.PI) / 180;
  const vector = new Float32Array(EMBEDDED_DIMENSIONS);
  vector[Number(topic) % (EMBEDDED_DIMENSIONS - 1)] = Math.cos(radians);
  vector[EMBEDDED_DIMENSIONS - 1] = Math.sin(radians);
  return vector;
}
