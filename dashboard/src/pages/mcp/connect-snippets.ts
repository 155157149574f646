/** How clients connect to the MCP servers through the gateway. Pure. */

export interface ConnectSnippet {
  readonly name: string;
  readonly title: string;
  /** Where the text belongs. */
  readonly place: string;
  readonly text: string;
}

const VARIABLE = 'CHANCERY_API_KEY';

/**
 * @param gateway the URL of the gateway
 * @param slug undefined: all servers that the key may see
 */
export function connectSnippets(gateway: string, slug: string | undefined): readonly ConnectSnippet[] {
  const url = `${gateway}/mcp${slug === undefined ? '' : `/${slug}`}`;
  const name = slug ?? 'chancery';
  const json = (value: object) => JSON.stringify(value, undefined, 2);
  return [
    {
      ...{ name: 'claude', title: 'Claude Code', place: 'A command; the shell fills in the key' },
      text: `claude mcp add --transport http ${name} ${url} --header "Authorization: Bearer $${VARIABLE}"`,
    },
    {
      ...{ name: 'codex', title: 'Codex', place: '~/.codex/config.toml; the key is in the environment' },
      text: `[mcp_servers.${name}]\nurl = ${JSON.stringify(url)}\nbearer_token_env_var = "${VARIABLE}"`,
    },
    {
      ...{ name: 'cursor', title: 'Cursor', place: '.cursor/mcp.json; the key is in the environment' },
      text: json({ mcpServers: { [name]: { url, headers: { Authorization: `Bearer \${env:${VARIABLE}}` } } } }),
    },
    {
      ...{ name: 'vscode', title: 'VS Code', place: '.vscode/mcp.json; the key is asked for' },
      text: json({
        inputs: [{ type: 'promptString', id: 'chancery-key', description: 'Key of the gateway', password: true }],
        servers: { [name]: { type: 'http', url, headers: { Authorization: `Bearer \${input:chancery-key}` } } },
      }),
    },
  ];
}
