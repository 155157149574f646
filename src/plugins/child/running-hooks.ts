/** The hooks of one plugin, and the calls of them that have not ended. */

import { z } from 'zod';
import type { ChatAnswer, ChatCall, HookContext, Plugin } from '../api/plugin.ts';
import { FrameError } from '../protocol/frames.ts';
import type { CallMessage, FromPlugin, HookName, ToPlugin } from '../protocol/messages.ts';

interface Call {
  readonly controller: AbortController;
  readonly chats: Map<number, PromiseWithResolvers<ChatAnswer>>;
}

type AnyHook = (input: unknown, context: HookContext) => unknown;

export class RunningHooks {
  readonly manifest: object;
  readonly #plugin: Plugin;
  readonly #configs: ConfigReader;
  readonly #send: (message: FromPlugin) => void;
  readonly #calls = new Map<number, Call>();
  #lastChat = 0;

  /** @throws Error when the module cannot be loaded or is no plugin */
  static async of(entry: string, send: (message: FromPlugin) => void): Promise<RunningHooks> {
    const module: unknown = await import(entry);
    return new RunningHooks(pluginIn(module), send);
  }

  private constructor(plugin: Plugin, send: (message: FromPlugin) => void) {
    this.#plugin = plugin;
    this.#send = send;
    this.#configs = new ConfigReader(plugin);
    this.manifest = manifestOf(plugin);
  }

  take(message: ToPlugin): void {
    if (message.t === 'call') void this.#run(message);
    else if (message.t === 'cancel') this.#cancel(message.id);
    else this.#answerChat(message);
  }

  async #run({ id, hook, input, context, config }: CallMessage): Promise<void> {
    const call: Call = { controller: new AbortController(), chats: new Map() };
    this.#calls.set(id, call);
    let answer: FromPlugin;
    try {
      const run = this.#plugin.hooks[hook] as AnyHook | undefined;
      const given = this.#configs.read(config, hook) as HookContext['config'];
      if (run === undefined) throw new Error(`the plugin has no hook '${hook}'`);
      const value = await Reflect.apply(run, this.#plugin.hooks, [
        input,
        { ...context, config: given, signal: call.controller.signal, models: this.#models(id, call) },
      ]);
      answer = { t: 'result', id, value };
    } catch (error) {
      // The message may repeat texts of the request. The gateway shows it to operators only, as output of the plugin.
      const isConfig = error instanceof InvalidConfig;
      if (!isConfig) console.error(error);
      const name = error instanceof Error ? error.name : typeof error;
      answer = {
        t: 'error',
        id,
        message: isConfig ? error.message.slice(0, 2000) : `the hook '${hook}' threw ${name.slice(0, 100)}`,
      };
    }
    if (!this.#calls.delete(id)) return;
    try {
      this.#send(answer);
    } catch (error) {
      const why = error instanceof FrameError ? `the result is too large: ${error.message}` : textOf(error);
      this.#send({ t: 'error', id, message: why });
    }
  }

  #cancel(id: number): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    this.#send({ t: 'cancelled', id });
    call.controller.abort();
    for (const chat of call.chats.values()) chat.reject(new Error('the call of the hook was cancelled'));
  }

  #models(id: number, call: Call): HookContext['models'] {
    return {
      chat: (request: ChatCall) => {
        if (!this.#calls.has(id)) return Promise.reject(new Error('the call of the hook has ended'));
        this.#lastChat += 1;
        const pending = Promise.withResolvers<ChatAnswer>();
        call.chats.set(this.#lastChat, pending);
        this.#send({ t: 'chat', id, chat: this.#lastChat, request });
        return pending.promise;
      },
    };
  }

  #answerChat(message: Extract<ToPlugin, { t: 'chat' }>): void {
    const call = this.#calls.get(message.id);
    const pending = call?.chats.get(message.chat);
    if (call === undefined || pending === undefined) return;
    call.chats.delete(message.chat);
    if ('answer' in message) pending.resolve(message.answer);
    else pending.reject(new Error(message.error));
  }
}

function textOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 2000);
}

/** Configurations that are kept in the form in which hooks get them. */
const KEPT = 256;

class InvalidConfig extends Error {}

class ConfigReader {
  readonly #plugin: Plugin;
  readonly #known = new Map<string, unknown>();

  constructor(plugin: Plugin) {
    this.#plugin = plugin;
  }

  /** @throws InvalidConfig that names the setting at fault */
  read(config: unknown, hook: HookName): unknown {
    const schema: unknown = hook === 'route' ? this.#plugin.routeConfig : this.#plugin.config;
    if (!(schema instanceof z.ZodType)) return config;
    const key = `${hook === 'route'} ${JSON.stringify(config)}`;
    if (this.#known.has(key)) return this.#known.get(key);
    const read = schema.safeParse(config);
    if (!read.success) {
      const [issue] = read.error.issues;
      throw new InvalidConfig(`the configuration is invalid: ${issue?.path.join('.')} ${issue?.message}`);
    }
    if (this.#known.size >= KEPT) this.#known.clear();
    this.#known.set(key, read.data);
    return read.data;
  }
}

/** @throws Error when the module has no plugin */
function pluginIn(module: unknown): Plugin {
  const given: unknown = typeof module === 'object' && module !== null ? Reflect.get(module, 'default') : undefined;
  if (typeof given !== 'object' || given === null) {
    throw new Error("the module has no plugin: write 'export default definePlugin({ … })'");
  }
  const hooks: unknown = Reflect.get(given, 'hooks');
  if (typeof hooks !== 'object' || hooks === null) throw new Error("the plugin has no 'hooks'");
  for (const [name, hook] of Object.entries(hooks)) {
    if (typeof hook !== 'function') throw new Error(`the hook '${name}' is no function`);
  }
  return given as Plugin;
}

function manifestOf({ hooks, config, routeConfig, ...facts }: Plugin): object {
  return {
    ...facts,
    hooks: Object.keys(hooks),
    config: jsonSchemaOf(config, 'config'),
    routeConfig: jsonSchemaOf(routeConfig, 'routeConfig'),
  };
}

function jsonSchemaOf(schema: unknown, name: string): unknown {
  if (!(schema instanceof z.ZodType)) return schema;
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  } catch (error) {
    throw new Error(`'${name}' has no JSON Schema: ${error instanceof Error ? error.message : String(error)}`);
  }
}
