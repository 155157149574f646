/**
 * What the servers say of their tools. A text that describes a tool is read by models, so a server can change what they do
 * by changing it: each change is recorded before a client gets it, and the changed tools of a pinned server are withheld
 * until an administrator accepts them.
 */
import { canonicalJson, canonicalSha256 } from '../commands/canonical-json.ts';
import { refusals } from '../commands/refusal.ts';
import { mcpToolAccepted, mcpToolsChanged } from '../events/catalogue/mcp.ts';
import { type EventContext, type NewEvent, type Position, streamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import type { KnownTool, McpToolsState } from '../projections/mcp-tools.ts';
import type { McpServer } from './mcp-server.ts';
import { entryName, type Listed } from './server-lists.ts';
import type { ChangedTool, McpTool } from './upstreams.ts';

interface ToolDefinitionsParts {
  readonly log: Pick<EventLog, 'append'>;
  readonly view: { readonly state: McpToolsState; whenProcessed(position: Position): Promise<void> };
}

/** Tools in one event. */
const MAX_TOOLS = 100;

export class ToolDefinitions {
  readonly #parts: ToolDefinitionsParts;
  readonly #digests = new WeakMap<Listed, string>();
  /** By slug. One after the other, so that what several sessions see at the same time is recorded once. */
  readonly #observing = new Map<string, Promise<void>>();

  constructor(parts: ToolDefinitionsParts) {
    this.#parts = parts;
  }

  /** Resolves when what is new in the list is on disk. @throws LogUnavailable */
  async observe(server: McpServer, tools: readonly McpTool[]): Promise<void> {
    const before = this.#observing.get(server.slug) ?? Promise.resolve();
    const observed = before.then(() => this.#record(server, tools));
    const settled = observed.catch(() => {});
    this.#observing.set(server.slug, settled);
    await observed.finally(() => {
      if (this.#observing.get(server.slug) === settled) this.#observing.delete(server.slug);
    });
  }

  /** Whether the tool must not be listed and not be called. */
  isWithheld({ slug, pin }: McpServer, tool: string): boolean {
    return pin && this.#of(slug)?.get(tool)?.changed !== undefined;
  }

  /** Whether clients get this definition. Of a pinned server, only the accepted one. */
  isOffered({ slug, pin }: McpServer, tool: Listed): boolean {
    if (!pin) return true;
    const known = this.#of(slug)?.get(entryName(tool));
    return known !== undefined && known.changed === undefined && known.digest === this.#digestOf(tool);
  }

  changed(slug: string): ChangedTool[] {
    return [...(this.#of(slug) ?? [])].flatMap(([name, { definition: accepted, changed }]) =>
      changed === undefined
        ? []
        : [{ name, accepted, changed: changed.definition, digest: changed.digest, changedAt: changed.at }],
    );
  }

  /**
   * Resolves when the tool can be called again.
   * @param digest of the definition that the administrator has read
   * @throws Refusal 404 when nothing is to be accepted, 409 when the definition has changed once more
   */
  async accept(server: string, tool: string, digest: string | undefined, context: EventContext): Promise<void> {
    const changed = this.#of(server)?.get(tool)?.changed;
    if (changed === undefined) throw refusals.notFound('changed tool', tool);
    if (digest !== undefined && digest !== changed.digest) throw refusals.changedMeanwhile(tool);
    await this.#append(server, [mcpToolAccepted.create({ server, tool, digest: changed.digest }, context)]);
  }

  #digestOf(definition: Listed): string {
    const known = this.#digests.get(definition);
    if (known !== undefined) return known;
    const digest = canonicalSha256(definition);
    this.#digests.set(definition, digest);
    return digest;
  }

  #of(slug: string): ReadonlyMap<string, KnownTool> | undefined {
    return this.#parts.view.state.servers.get(slug);
  }

  async #record({ slug, pin }: McpServer, tools: readonly McpTool[]): Promise<void> {
    const known = this.#of(slug);
    const news = tools.flatMap((definition) => {
      const { name } = definition;
      const digest = this.#digestOf(definition);
      const before = known?.get(name);
      if ((before?.changed ?? before)?.digest === digest) return [];
      const isKept = !pin || before?.digest === digest;
      const change = before === undefined ? ('added' as const) : isKept ? ('accepted' as const) : ('withheld' as const);
      return [{ definition, fact: { name, digest, change } }];
    });
    for (let from = 0; from < news.length; from += MAX_TOOLS) {
      const some = news.slice(from, from + MAX_TOOLS);
      const body = Buffer.from(canonicalJson(some.map(({ definition }) => definition)));
      const data = { server: slug, tools: some.map(({ fact }) => fact) };
      await this.#append(slug, [mcpToolsChanged.create(data, { actor: 'system' }, body)]);
    }
  }

  async #append(slug: string, events: readonly NewEvent[]): Promise<void> {
    const { log, view } = this.#parts;
    const stream = streamName('mcp-tools', slug);
    const { position } = await log.append([{ stream, events: [...events], expectedRevision: 'any' }]);
    await view.whenProcessed(position);
  }
}
