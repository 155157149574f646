/** An MCP server with tools for the weather, which lists their annotations and records their calls. */
import type { Answered } from './answered.ts';
import { startScriptedMcp } from './scripted-mcp.ts';
import { weather } from './with-gateway.ts';

type Answer = (name: string, args: Answered) => object | Promise<object>;

export interface ToolServer {
  readonly url: string;
  /** The parameters of each `tools/call`, in order. */
  readonly calls: { readonly name: string; readonly arguments: Answered }[];
  /** How calls are answered from now on; default: a text with the city. */
  answer(given?: Answer): void;
  /** What is listed from now on. */
  list(...tools: readonly object[]): void;
  close(): Promise<void>;
}

export const weatherTools = [
  {
    name: weather.name,
    description: weather.description,
    inputSchema: weather.parameters,
    annotations: { readOnlyHint: true },
  },
  { name: 'set_alarm', description: 'Sets an alarm', inputSchema: weather.parameters },
];

const usual: Answer = (_name, args) => ({ content: [{ type: 'text', text: `sunny in ${args.city}` }] });

export async function startToolServer(): Promise<ToolServer> {
  const calls: { name: string; arguments: Answered }[] = [];
  let answer = usual;
  let tools: readonly object[] = weatherTools;
  const server = await startScriptedMcp({});
  server.results.set('tools/list', () => ({ tools }));
  server.results.set('tools/call', ({ name, arguments: args }) => {
    calls.push({ name, arguments: args });
    return answer(name, args);
  });
  return {
    url: server.url,
    calls,
    answer(given = usual) {
      answer = given;
    },
    list(...given) {
      tools = given;
    },
    close: () => server.close(),
  };
}
