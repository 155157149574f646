import { describe, expect, test } from 'vitest';
import { mask } from '../../src/config/mask.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { problemsFrom, type Written } from './load.ts';

const said = (written: Written) => problemsFrom(written).map(describeProblem);

describe('a configuration problem names its place and the expected value', () => {
  test.each<[string, Written, string]>([
    [
      'a bad variable names the setting, the variable, the value and what is expected',
      { env: { PORT: 'abc' } },
      'server.port (PORT): expected a whole number from 0 to 65535, got "abc"',
    ],
    [
      'a bad flag names the flag',
      { flags: { port: '99999' } },
      'server.port (--port): expected a whole number from 0 to 65535, got "99999"',
    ],
    [
      'a flag of two words is named as it is typed',
      { flags: { logUrl: 'ftp://x' } },
      'log.url (--log-url): expected file:, esdb:, kurrentdb: or kafka: and an address, got "ftp://…"',
    ],
    [
      'a bad value in the file names its path',
      { yaml: 'server: { body_size_limit: 1G }' },
      'server.body_size_limit: expected a size from 1K to 100M, such as 512K or 10M, got "1G"',
    ],
    [
      'a word that is none of the choices lists them',
      { env: { LOG_DURABILITY: 'paranoid' } },
      'log.durability (LOG_DURABILITY): expected one of standard, strict, relaxed, got "paranoid"',
    ],
    [
      'a switch is true or false',
      { env: { METRICS_ENABLED: 'maybe' } },
      'metrics.enabled (METRICS_ENABLED): expected true or false, got "maybe"',
    ],
    [
      'a duration has a unit that exists',
      { env: { HTTP_TIMEOUT: '5 parsecs' } },
      'http.timeout (HTTP_TIMEOUT): expected a duration such as 500ms, 30s or 1m30s (a plain number means seconds), more than 0, got "5 parsecs"',
    ],
    [
      'a duration is no longer than a timer can wait',
      { env: { HTTP_TIMEOUT: '30d' } },
      'http.timeout (HTTP_TIMEOUT): expected a duration such as 500ms, 30s or 1m30s (a plain number means seconds), more than 0, got "30d"',
    ],
    [
      'a status is a status',
      { env: { RETRY_ON_STATUSES: '429,6xx' } },
      'resilience.retry.on_statuses (RETRY_ON_STATUSES): expected HTTP statuses such as 429, 503 or 5xx, got "429,6xx"',
    ],
    [
      'a header name is one',
      { env: { USER_PATH_HEADER: 'X Team' } },
      'server.user_path_header (USER_PATH_HEADER): expected the name of an HTTP header, got "X Team"',
    ],
    [
      'an unknown key names the nearest known one',
      { yaml: 'server: { prot: 1 }' },
      'server.prot: unknown key "prot"; did you mean "port"?',
    ],
    [
      'a key nowhere near any lists those there are',
      { yaml: 'metrics: { colour: blue }' },
      'metrics.colour: unknown key "colour"; known here: enabled, endpoint, public, key',
    ],
    ['a section is a mapping', { yaml: 'server: 8080' }, 'server: expected a mapping of settings, got 8080'],
    [
      'a file is a mapping',
      { yaml: '- a\n' },
      expect.stringMatching(/chancery\.yaml: must hold a mapping of settings$/),
    ],
    [
      'a number where text belongs must be quoted',
      { yaml: 'server: { master_key: 0123 }' },
      'server.master_key: expected a key, in quotes, got ****',
    ],
    [
      'an unset reference names the variable',
      { yaml: 'server: { host: "${BIND}" }' },
      'server.host (BIND): ${BIND} is not set; set it, or write ${BIND:-default}',
    ],
    [
      'a reference of another form has a place',
      { yaml: 'server:\n  port: 1\nproviders:\n  mine: { type: openai, api_key: "${vault:/x}" }\n' },
      expect.stringMatching(
        /^providers\.mine\.api_key: the reference at line 4, column 35 of .*chancery\.yaml names no variable; write \$\{NAME\} or \$\{NAME:-default\}, \$\{file:\/path\} for a file, or \$\$\{ for a literal \$\{$/,
      ),
    ],
    [
      'an address has a scheme',
      { env: { LLAMACPP_GPU_BASE_URL: 'localhost:8081/v1' } },
      'providers.llamacpp-gpu.base_url (LLAMACPP_GPU_BASE_URL): expected an address starting with http:// or https://, got "localhost:8081/v1"',
    ],
    [
      'a provider has a type',
      { yaml: 'providers: { mine: { base_url: "http://x" } }' },
      expect.stringMatching(/^providers\.mine\.type: expected one of openai, .*, but nothing is set$/),
    ],
    [
      'a provider type exists',
      { yaml: 'providers: { mine: { type: opnai } }' },
      expect.stringMatching(/^providers\.mine\.type: expected one of openai, .*, got "opnai"$/),
    ],
    [
      'a provider name can stand in a selector',
      { yaml: 'providers: { "a/b": { type: ollama } }' },
      expect.stringContaining('providers.a/b: a provider name is letters'),
    ],
    [
      'an option belongs to the type',
      { yaml: 'providers: { mine: { type: openai, api_key: k, api_version: "1" } }' },
      'providers.mine.api_version: providers of type openai have no such option',
    ],
    [
      'a key in a variable has a line feed',
      { env: { OPENAI_API_KEY: 'sk-0', OPENAI_API_KEY_2: 'sk-1\nsecret' } },
      expect.stringMatching(
        /^providers\.openai\.api_keys.*: expected a key of characters that HTTP headers can contain, got \*{4}$/,
      ),
    ],
    [
      'the key of a store has a NUL',
      { env: { SEMANTIC_CACHE_QDRANT_API_KEY: 'a\0b' } },
      'cache.semantic.vector_store.qdrant.api_key (SEMANTIC_CACHE_QDRANT_API_KEY): expected a key of characters that HTTP headers can contain, got ****',
    ],
    [
      'a key of the file has a line feed',
      { yaml: 'providers: { mine: { type: openai, api_key: "sk-secret\\nx" } }' },
      'providers.mine.api_key: expected a key of characters that HTTP headers can contain, got ****',
    ],
    [
      'an option of a type has a line feed',
      { yaml: 'providers: { mine: { type: azure, api_key: k, base_url: "http://x", api_version: "a\\nb" } }' },
      expect.stringMatching(
        /^providers\.mine\.api_version: expected text of characters that HTTP headers can contain, got "a/,
      ),
    ],
  ])('%s', (_, written, expected) => {
    expect(said(written)).toEqual([expected]);
  });

  test('all problems are reported at once, from every source', () => {
    const found = problemsFrom({
      flags: { port: 'x' },
      env: { LOG_LEVEL: 'loud' },
      dotenv: 'LOG_FORMAT=xml',
      yaml: 'server: { prot: 1, hots: a }\nproviders: { p: { type: nope } }\nfoo: 1\n',
    });
    expect(found.map(({ path, source }) => [path, source])).toEqual(
      expect.arrayContaining([
        ['server.port', 'flag'],
        ['logging.level', 'environment'],
        ['logging.format', '.env'],
        ['server.prot', 'file'],
        ['server.hots', 'file'],
        ['providers.p.type', 'file'],
        ['foo', 'file'],
      ]),
    );
    expect(found).toHaveLength(7);
  });

  test('a secret is never shown', () => {
    const key = 'sk-very-secret-0123456789';
    const texts = said({
      yaml: `providers:\n  a: { type: openai, api_key: [${key}] }\n  b: { type: openai, api_keys: ${key} }\n  c: { type: openai, api_key: { k: ${key} } }\n`,
    });
    expect(texts).toHaveLength(3);
    expect(texts.join()).not.toContain(key.slice(0, -4));
  });

  test('a password in an address is never shown', () => {
    expect(said({ env: { LOG_URL: 'redis://user:hunter2@host' } }).join()).not.toContain('hunter2');
  });

  test('a short secret is masked whole, a long one but for its last four characters', () => {
    expect(mask('sk-short')).toBe('****');
    expect(mask('sk-abcdefghijklmnopqrstuvwxyz')).toBe('****wxyz');
  });
});
