import { describe, expect, test } from 'vitest';
import { describeProblem } from '../../src/config/problem.ts';
import { configFrom, problemsFrom } from './load.ts';

const yaml = `
mcp:
  allowed_origins: https://app.example.com
  servers:
    - name: Tickets
      url: https://tickets.example.com/mcp/
      headers: { X-Api-Key: "\${TICKETS_KEY:-none}" }
      user_paths: [/team]
      price_per_call: 0.5
      pin: true
    - name: Files
      transport: stdio
      command: npx
      args: [-y, some-package]
      env: { PORT: 8080 }
`;

describe('MCP servers of the configuration', () => {
  test('are none by default, and MCP is on', () => {
    expect(configFrom({}).mcp).toEqual({ enabled: true, allowedOrigins: [], servers: [] });
  });

  test('come from the file with their defaults', () => {
    const { mcp } = configFrom({ yaml, env: { TICKETS_KEY: 'secret' } });
    expect(mcp.allowedOrigins).toEqual(['https://app.example.com']);
    expect(mcp.servers).toMatchObject([
      {
        ...{ name: 'Tickets', transport: 'streamable_http', url: 'https://tickets.example.com/mcp/' },
        ...{ headers: { 'X-Api-Key': 'secret' }, userPaths: ['/team'], pricePerCall: 0.5, pin: true, enabled: true },
        toolTimeoutSeconds: 30,
      },
      {
        name: 'Files',
        transport: 'stdio',
        command: 'npx',
        args: ['-y', 'some-package'],
        env: { PORT: '8080' },
        pin: false,
      },
    ]);
  });

  test('come from a variable too, over those of the same name', () => {
    const rows = [{ name: 'Tickets', url: 'https://other.example.com/mcp' }];
    const { servers } = configFrom({ yaml, env: { MCP_SERVERS: JSON.stringify(rows) } }).mcp;
    expect(servers.map(({ name, url, pin }) => [name, url, pin])).toEqual(
      expect.arrayContaining([
        ['Tickets', 'https://other.example.com/mcp', false],
        ['Files', undefined, false],
      ]),
    );
    expect(servers).toHaveLength(2);
  });

  test.each([
    ['[{"name":"a"}]', 'expected a url, or transport: stdio and a command'],
    [
      '[{"name":"a","transport":"stdio","url":"https://a.example"}]',
      'expected a url, or transport: stdio and a command',
    ],
    ['[{"name":"a","url":"https://a.example","command":"sh"}]', 'expected a url, or transport: stdio and a command'],
    ['[{"name":"a","url":"ftp://a.example"}]', 'expected an address that begins with http:// or https://'],
    ['[{"name":"a","slug":"A_b","url":"https://a.example"}]', 'mcp.servers.0.slug'],
    ['[{"name":"a","url":"https://a.example","oauth":{"grant":"x"}}]', 'mcp.servers.0.oauth.grant'],
    ['[{"name":"a","url":"https://a.example","headers":"sk-hidden"}]', 'a mapping of names of headers to their values'],
    ['sk-hidden', 'mcp.servers (MCP_SERVERS): expected a list of mappings'],
  ])('are refused without their secrets: %s', (given, expected) => {
    const problems = problemsFrom({ env: { MCP_SERVERS: given } })
      .map(describeProblem)
      .join('\n');
    expect(problems).toContain(expected);
    expect(problems).not.toContain('sk-hidden');
  });
});
