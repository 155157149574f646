/**
 * The routes of providers' own APIs that touch nothing stored: they neither read, reference nor change a caller's
 * objects at the provider, and change nothing of the server itself. Any other route might, including routes of later
 * provider versions; so this is a list of allowed routes, and not of forbidden ones.
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

/** @param further routes that the operator declares stateless, as `METHOD /path` */
export function createStatelessRoutes(further: readonly string[]): StatelessRoutes {
  const own = further.map(withoutV1);
  const known = new Map(Object.entries(ofType).map(([type, routes]) => [type, [...ofAll, ...routes, ...own]]));
  const usual = [...ofAll, ...own];
  return {
    has(type, method, path) {
      const requestedRoute = withoutV1(`${method === 'HEAD' ? 'GET' : method} ${path.split('?', 1)[0]}`);
      return (known.get(type) ?? usual).some((route) =>
        route.endsWith('/*')
          ? requestedRoute.length > route.length - 1 && requestedRoute.startsWith(route.slice(0, -1))
          : requestedRoute === route,
      );
    },
  };
}

export interface StatelessRoutes {
  /** @param path below `/p/{provider}`, as the client sent it: another spelling is another path */
  has(type: string, method: string, path: string): boolean;
}

/** Routes are listed and compared without `/v1`, which is optional in requests. */
function withoutV1(route: string): string {
  return route.replace(' /v1/', ' /');
}
