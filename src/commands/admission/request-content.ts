/** What the members of a request show about its tokens. Conservative: what is not known to be text is not. */
import { foldedName } from '../../json/body-scan.ts';
import { isNamedOnly } from '../../providers/translate/responses-to-chat/item-reference.ts';

export interface RequestContent {
  /** Whether its tokens are those of its own text. */
  readonly isText: boolean;
  /** Whether it asks the provider to write to its prompt cache. */
  readonly writesCache: boolean;
}

/** Types of content whose tokens do not depend on its bytes, or that name content stored elsewhere. */
const OTHER_CONTENT = /image|audio|video|file|document|screenshot|reference|upload/i;
const MAX_TYPE_LENGTH = 40;
/** Tools that a client runs; others run at the provider, and what they find becomes input. */
const CLIENT_TOOLS: ReadonlySet<unknown> = new Set([undefined, 'function', 'custom']);
/** Members that add input, or kinds of output, that the request does not show. */
const ADDS_TOKENS = ['web_search_options', 'plugins', 'audio', 'mcp_servers', 'container', 'prompt_embeds'];

export function contentOf(json: Readonly<Record<string, unknown>>): RequestContent {
  const { messages, input, system, instructions, tools, prompt, modalities } = json;
  const walked = walk([messages, input, system, instructions, tools]);
  const isText =
    walked.isText &&
    (!Array.isArray(input) || !input.some(isNamedOnly)) &&
    ADDS_TOKENS.every((name) => (json[name] ?? null) === null) &&
    // A stored prompt of the Responses API; in other APIs the prompt is text, a list of texts, or tokens.
    (typeof prompt !== 'object' || prompt === null || Array.isArray(prompt)) &&
    (!Array.isArray(modalities) || modalities.every((one) => one === 'text')) &&
    (!Array.isArray(tools) || tools.every(isClientTool));
  return { isText, writesCache: walked.writesCache || (json['cache_control'] ?? null) !== null };
}

function isClientTool(tool: unknown): boolean {
  return typeof tool === 'object' && tool !== null && CLIENT_TOOLS.has('type' in tool ? tool.type : undefined);
}

function walk(values: readonly unknown[]): { isText: boolean; writesCache: boolean } {
  const found = { isText: true, writesCache: false };
  // Iterative, because a client may nest to any depth.
  const rest: unknown[] = [...values];
  while (rest.length > 0) {
    const value = rest.pop();
    if (Array.isArray(value)) {
      for (const each of value) rest.push(each);
    } else if (typeof value === 'object' && value !== null) {
      const type = 'type' in value ? value.type : undefined;
      if (typeof type === 'string' && type.length <= MAX_TYPE_LENGTH && OTHER_CONTENT.test(type)) found.isText = false;
      if ('cache_control' in value) found.writesCache = true;
      if (found.isText && repeatsName(value)) found.isText = false;
      for (const member of Object.values(value)) if (typeof member === 'object') rest.push(member);
    }
  }
  return found;
}

/** Whether two names differ in case only: a server that ignores case may read another of the two than the gateway. */
function repeatsName(object: object): boolean {
  let others: Set<string> | undefined;
  for (const name in object) {
    const own = foldedName(name);
    // Names in lower case differ from each other.
    if (own === name) continue;
    if (Object.hasOwn(object, own) || others?.has(own) === true) return true;
    others ??= new Set();
    others.add(own);
  }
  return false;
}
