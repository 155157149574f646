/** An MCP server whose only tool returns its argument, as a process. */
import { startScriptedMcp } from '../../test/support/scripted-mcp.ts';

const { url } = await startScriptedMcp({
  echo: {
    inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
    call: ({ text }: { text: string }) => text,
  },
});
console.log(`listening on ${url}`);
