/**
 * The routes of providers' own APIs that concern nothing stored: they neither read nor name nor change what a caller
 * left at the provider, and change nothing of the server itself. All others might, also those that a later version of a
 * provider adds; so this is a list of what is known, and not of what is forbidden.
 */

/** Below the base URL or at the server's root, without `/v1`. A final `/*` stands for any path below. */
const ofAll: readonly string[] = [
  'GET /models',
  'GET /models/*',
  'POST /chat/completions',
  'POST /completions',
  'POST /embeddings',
  'POST /moderations',
  'POST /rerank',
  'POST /audio/speech',
  'POST /images/generations',
  'GET /health',
  'GET /version',
];

const tokenizer = ['POST /tokenize', 'POST /detokenize'];
const messages = ['POST /messages', 'POST /messages/count_tokens'];

const ofType: Readonly<Record<string, readonly string[]>> = {
  anthropic: messages,
  llamacpp: [
    ...tokenizer,
    ...messages,
    'GET /props',
    'POST /apply-template',
    'POST /completion',
    'POST /embedding',
    'POST /infill',
    'POST /reranking',
  ],
  mistral: ['POST /fim/completions'],
  ollama: [
    ...messages,
    'GET /api/tags',
    'GET /api/version',
    'POST /api/chat',
    'POST /api/embed',
    'POST /api/embeddings',
    'POST /api/generate',
    'POST /api/show',
  ],
  sglang: [
    'GET /health_generate',
    'GET /get_model_info',
    'POST /classify',
    'POST /encode',
    'POST /generate',
    'POST /score',
  ],
  vllm: [...tokenizer, ...messages, 'GET /ping', 'POST /classify', 'POST /pooling', 'POST /score'],
};

/** @param further routes that the operator knows to be stateless, as `METHOD /path` */
export function createStatelessRoutes(further: readonly string[]): StatelessRoutes {
  const own = further.map(withoutV1);
  const known = new Map(Object.entries(ofType).map(([type, routes]) => [type, [...ofAll, ...routes, ...own]]));
  const usual = [...ofAll, ...own];
  return {
    has(type, method, path) {
      const asked = withoutV1(`${method === 'HEAD' ? 'GET' : method} ${path.split('?', 1)[0]}`);
      return (known.get(type) ?? usual).some((route) =>
        route.endsWith('/*')
          ? asked.length > route.length - 1 && asked.startsWith(route.slice(0, -1))
          : asked === route,
      );
    },
  };
}

export interface StatelessRoutes {
  /** @param path below `/p/{provider}`, as the client wrote it: what is written in another way is another path */
  has(type: string, method: string, path: string): boolean;
}

/** Providers and clients write `/v1` before a route, or do not. */
function withoutV1(route: string): string {
  return route.replace(' /v1/', ' /');
}
