/** The commands of the command line, and how each is started. A command's code is loaded when it runs. */
import { userInfo } from 'node:os';
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import {
  type CommandShape,
  type Flags,
  helpFor,
  type ParsedArguments,
  parseArguments,
  twoColumns,
  UsageError,
} from './command.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, print, printError, type Terminal, withTerminal } from './terminal.ts';

const whereFlags: Flags = {
  config: { value: 'FILE', about: 'settings file (default: chancery.yaml, if it exists)' },
  'data-dir': { value: 'FOLDER', about: 'folder for all data of the gateway' },
  'log-url': { value: 'URL', about: 'address of the event log: file:…, esdb://…, kafka://…' },
};

const eventFlags: Flags = {
  json: { about: 'one JSON object per line' },
  full: { about: 'do not shorten data and bodies' },
};

/** Of commands that change a running gateway. */
const gatewayFlags: Flags = {
  gateway: { value: 'URL', about: 'address of the running gateway; optional with --dry-run' },
  key: { value: 'KEY', about: 'a key of a global administrator (default: the master key of the configuration)' },
  'dry-run': { about: 'print what would be sent, and change nothing; what the gateway would refuse is not known' },
  'data-dir': { value: 'FOLDER', about: 'folder of the gateway, for its master key' },
};

type CommandRun = [args: ParsedArguments, parts: ProgramParts, terminal: Terminal];

/** A service handles signals itself. */
type Command = CommandShape &
  (
    | { readonly run: (...run: CommandRun) => Promise<number> }
    | { readonly service: (args: ParsedArguments, parts: ProgramParts) => Promise<number> }
  );

const commands: readonly Command[] = [
  {
    name: 'serve',
    about: 'Run the gateway.',
    flags: {
      port: { value: 'PORT', short: 'p', about: 'port to listen on (default 8080)' },
      host: { value: 'HOST', about: 'address to listen on (default 127.0.0.1)' },
      workers: { value: 'N', about: 'processes that serve requests (default 1)' },
      ...whereFlags,
      'log-durability': { value: 'LEVEL', about: 'standard, strict or relaxed' },
      'log-level': { value: 'LEVEL', about: 'trace, debug, info, warn, error, fatal or silent' },
    },
    service: (args, parts) => parts.serve(args.values),
  },
  {
    name: 'analytics setup',
    about:
      'Create the user for analysts (CLICKHOUSE_ANALYST_USER) on the server at CLICKHOUSE_URL, as CLICKHOUSE_ADMIN_USER or else CLICKHOUSE_USER. Can be run again.',
    flags: whereFlags,
    run: async (...run) => (await import('./config-command.ts')).analyticsSetup(...run),
  },
  {
    name: 'analytics',
    about: 'Project the log into ClickHouse, embedded or at CLICKHOUSE_URL. "serve" includes this.',
    flags: {
      ...whereFlags,
      'log-level': { value: 'LEVEL', about: 'trace, debug, info, warn, error, fatal or silent' },
    },
    service: (args, parts) => parts.analytics(args.values),
  },
  {
    name: 'log tail',
    about: 'Show the newest events of the log, or with --after all events after a position.',
    flags: {
      follow: { short: 'f', about: 'wait for further events' },
      type: { value: 'TYPE', repeatable: true, about: 'only this event type; "attempt." or "attempt.*" for a family' },
      stream: { value: 'STREAM', repeatable: true, about: 'only streams with this prefix' },
      after: { value: 'POSITION', about: 'only events after this position; 0 for all' },
      last: { value: 'N', short: 'n', about: 'how many events to show without --after (default 20)' },
      ...eventFlags,
      ...whereFlags,
    },
    run: (args, parts, terminal) =>
      onLog(args, parts, terminal, async (log) => (await import('./log-events.ts')).logTail(args, log, terminal)),
  },
  {
    name: 'log cat',
    about: 'Show every event of one stream with its body, for example exchange-0193….',
    operands: ['stream'],
    flags: { ...eventFlags, ...whereFlags },
    run: (args, parts, terminal) =>
      onLog(args, parts, terminal, async (log) => (await import('./log-events.ts')).logCat(args, log, terminal)),
  },
  {
    name: 'log stat',
    about: 'Print the size of the log and what it contains.',
    flags: { json: { about: 'as JSON' }, ...whereFlags },
    run: async (...run) => (await import('./log-check.ts')).logStat(...run),
  },
  {
    name: 'log export',
    about: 'Write the events of a period to a file, or to standard output.',
    flags: {
      from: { value: 'TIME', about: 'from this day or time, in UTC unless it has a zone' },
      to: { value: 'TIME', about: 'up to this time, exclusive; or to the end of this day' },
      format: { value: 'FORMAT', about: 'ndjson (default), cloudevents or parquet' },
      output: { value: 'FILE', short: 'o', about: 'output file; required for parquet' },
      type: { value: 'TYPE', repeatable: true, about: 'only this event type; "attempt." or "attempt.*" for a family' },
      ...whereFlags,
    },
    run: (args, parts, terminal) =>
      onLog(args, parts, terminal, async (log, config) =>
        (await import('./log-events.ts')).logExport(args, log, config.log.readUrl, parts, terminal),
      ),
  },
  {
    name: 'log check',
    about: 'Read the whole log and verify every checksum. Exits with 1 when something is damaged.',
    flags: { json: { about: 'as JSON' }, ...whereFlags },
    run: async (...run) => (await import('./log-check.ts')).logCheck(...run),
  },
  {
    name: 'log backup',
    about:
      'Copy the log into a folder, also beside a running gateway: everything on disk at the start, verified and on disk at the end. Repeated into the same folder, it copies what is new.',
    flags: {
      to: { value: 'FOLDER', about: 'empty, or with an earlier backup of this log' },
      from: { value: 'FOLDER', about: 'folder of the log (default: the configured one)' },
      quick: { about: 'do not read again the compressed segments that the folder has already' },
      json: { about: 'as JSON' },
      ...whereFlags,
    },
    run: async (...run) => (await import('./log-backup.ts')).logBackup(...run),
  },
  {
    name: 'log restore',
    about:
      'Check a backup completely and make a log of it. Only where there is no log, or one without events. Not while a gateway runs.',
    flags: {
      from: { value: 'FOLDER', about: 'folder of the backup' },
      to: { value: 'FOLDER', about: 'folder of the log (default: the configured one, without its views.db)' },
      json: { about: 'as JSON' },
      ...whereFlags,
    },
    run: async (...run) => (await import('./log-backup.ts')).logRestore(...run),
  },
  {
    name: 'log copy',
    about:
      'Copy a log into a folder of a new log, or onto an engine, with the same ids, times, revisions and positions; read back and compared at the end. Repeated, it copies what is new.',
    flags: {
      from: { value: 'PLACE', about: 'folder of a log (also of a replica), kafka://… or esdb://…' },
      to: { value: 'PLACE', about: 'the same; empty, or with the beginning of this log. No gateway runs on it' },
      'from-replica': { value: 'FOLDER', about: 'replica of the engine at --from (default: a temporary one)' },
      'to-replica': { value: 'FOLDER', about: 'replica of the engine at --to (default: a temporary one)' },
      json: { about: 'as JSON' },
    },
    run: async (...run) => (await import('./log-backup.ts')).logCopy(...run),
  },
  {
    name: 'log accept-loss',
    about:
      'Continue a log that has lost files or events, or has damaged ones: reads all of it, keeps everything but the batches and compressed blocks that cannot be read, and records who accepted the loss, when, and which positions. These positions are not used again. Not while a gateway runs.',
    flags: {
      reason: { value: 'TEXT', about: 'reason; recorded in the log' },
      'dry-run': { about: 'list what would be lost, and change nothing; exits with 1 when that is something' },
      ...whereFlags,
    },
    run: async (...run) => (await import('./log-check.ts')).logAcceptLoss(...run, userInfo().username),
  },
  {
    name: 'guardrails replay',
    about:
      'Run a draft workflow over recorded requests and report what it would block, change or pass. Reads the log, also beside a running gateway; guardrails that call a model or a server run only with --gateway.',
    flags: {
      workflow: {
        value: 'FILE',
        about: 'draft: the body of POST /admin/workflows, or with its own guardrails of a replay',
      },
      from: { value: 'TIME', about: 'from this day, which begins in UTC, or this time with its zone' },
      to: { value: 'TIME', about: 'up to this time, exclusive; or to the end of this day (default: now)' },
      'user-path': { value: 'PATH', about: 'only requests of this user path and below it' },
      'max-requests': { value: 'N', about: 'evaluate at most N requests (default 10000)' },
      gateway: {
        value: 'URL',
        about: 'let the gateway at this address run it, with the master key; it records the run',
      },
      sample: { value: 'N', about: 'with --gateway: call models and servers for at most N requests (default 0)' },
      'max-cost': {
        value: 'DOLLARS',
        about: 'with --gateway: call no model when the sample is estimated to cost more',
      },
      json: { about: 'the result as JSON' },
      ...whereFlags,
    },
    run: async (args, parts, terminal) => {
      const { guardrailsReplay, guardrailsReplayAt } = await import('./guardrails-replay.ts');
      const { gateway } = args.values;
      if (gateway !== undefined) return guardrailsReplayAt(gateway, args, parts, terminal);
      return onLog(args, parts, terminal, (log, config) => guardrailsReplay(args, log, config, parts, terminal));
    },
  },
  {
    name: 'plugin new',
    about: 'Write a plugin that works, with its test, into a new folder.',
    operands: ['folder'],
    flags: {},
    run: async (...run) => (await import('./plugin-commands.ts')).pluginNew(...run),
  },
  {
    name: 'plugin check',
    about:
      'Load a plugin in its process as the gateway would, and run each of its hooks once with sample data. Exits with 1 when something fails.',
    operands: ['path'],
    flags: { settings: { value: 'JSON', about: 'settings of the plugin, or of a guardrail of it' } },
    run: async (...run) => (await import('./plugin-commands.ts')).pluginCheck(...run),
  },
  {
    name: 'migrate litellm',
    about:
      "Move LiteLLM's models, teams, users, limits and keys to a running gateway; clients keep their keys. Prints each change, and what has no equivalent. Repeated, it changes only what differs.",
    flags: {
      config: { value: 'FILE', about: "LiteLLM's config.yaml" },
      'database-url': { value: 'URL', about: "LiteLLM's PostgreSQL: teams, users, budgets and keys" },
      output: {
        value: 'FILE',
        short: 'o',
        about: 'write providers whose keys are in variables as a part of chancery.yaml',
      },
      ...gatewayFlags,
    },
    run: async (...run) => (await import('./migrate/migrate.ts')).migrateLitellm(...run),
  },
  {
    name: 'migrate gomodel',
    about: "Move the content of GoModel's SQLite file to a running gateway in the same way.",
    flags: { sqlite: { value: 'FILE', about: 'its database, for example data/gomodel.db' }, ...gatewayFlags },
    run: async (...run) => (await import('./migrate/migrate.ts')).migrateGomodel(...run),
  },
  {
    name: 'views list',
    about: 'List the read models that are saved between starts.',
    flags: { json: { about: 'as JSON' } },
    run: async (args, _parts, terminal) => (await import('./views.ts')).viewsList(args, terminal),
  },
  {
    name: 'views status',
    about: 'Print the position of each read model and the events that it skips.',
    flags: { json: { about: 'as JSON' }, ...whereFlags },
    run: (args, parts, terminal) =>
      onLog(args, parts, terminal, async (log, config) => {
        const { viewsStatus } = await import('./views.ts');
        return viewsStatus(args, log, config.dataDir, () => parts.announcedPosition(config), terminal);
      }),
  },
  {
    name: 'views rebuild',
    about: 'Rebuild a read model from the log. Not while a gateway runs.',
    operands: ['name'],
    flags: {
      from: { value: 'POSITION', about: 'of analytics: keep the rows of events up to this position' },
      ...whereFlags,
    },
    run: (args, parts, terminal) =>
      onLog(
        args,
        parts,
        terminal,
        async (log, config) => {
          const { analyticsRebuild, viewsRebuild } = await import('./views.ts');
          if (args.operands[0] !== 'analytics') return viewsRebuild(args, log, config.dataDir, terminal);
          return analyticsRebuild(args, (options) => parts.rebuildAnalytics(config, options), terminal);
        },
        args.operands[0] === 'analytics' ? 'read' : 'write',
      ),
  },
  {
    name: 'views skip',
    about: 'Skip the event at which a read model stopped, and record that. Not while a gateway runs.',
    operands: ['name'],
    flags: {
      position: { value: 'POSITION', about: 'position of the event, as in the error message' },
      reason: { value: 'TEXT', about: 'reason; recorded in the log' },
      ...whereFlags,
    },
    run: (args, parts, terminal) =>
      onLog(
        args,
        parts,
        terminal,
        async (log, config) =>
          (await import('./views.ts')).viewsSkip(args, log, config.dataDir, userInfo().username, terminal),
        'write',
      ),
  },
  {
    name: 'doctor',
    about:
      'Check what the gateway needs of this machine: folder, disk, clock, port, ClickHouse, sandbox, proxy, certificates, providers. Exits with 1 when there is a problem.',
    flags: {
      call: { about: 'request the model list of each provider once' },
      json: { about: 'as JSON' },
      ...whereFlags,
    },
    run: async (...run) => (await import('./doctor.ts')).doctor(...run),
  },
  ...(['check', 'print', 'schema'] as const).map((verb) => ({
    name: `config ${verb}`,
    about: {
      check: 'List all problems of the configuration. Exits with 1 when there are any.',
      print: 'Print the configuration in force as YAML, with secrets masked.',
      schema: 'Print the JSON Schema of chancery.yaml.',
    }[verb],
    flags: whereFlags,
    run: async (...run: CommandRun) => (await import('./config-command.ts')).configCommand(verb, ...run),
  })),
];

/** Opens the log that the configuration names, runs a command on it, and closes it again. */
async function onLog(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
  run: (log: EventLog, config: Config) => Promise<number>,
  mode: 'read' | 'write' = 'read',
): Promise<number> {
  const { configInForce, openConfiguredLog } = await import('./program-parts.ts');
  const config = await configInForce(args, parts, terminal);
  if (config === undefined) return 1;
  const log = await openConfiguredLog(config.log, mode, terminal);
  if (log === undefined) return 1;
  try {
    return await run(log, config);
  } catch (error) {
    // An error with a code has a message for users: no stack is printed.
    if (!(error instanceof Error && 'code' in error)) throw error;
    complain(terminal, error.message);
    return 1;
  } finally {
    await log.close();
  }
}

/**
 * Runs the command in `argv` (without Node and the script) and resolves to its exit code: 0 for success, 1 for failure,
 * 2 for a wrong command line.
 */
export async function runCli(argv: readonly string[], parts: ProgramParts): Promise<number> {
  const command = commands.find(({ name }) => name === argv.slice(0, name.split(' ').length).join(' '));
  if (command === undefined) return withoutCommand(argv, parts);
  try {
    const args = parseArguments(command, argv.slice(command.name.split(' ').length));
    if (args.switches.has('help')) return say(helpFor(command));
    if ('service' in command) return await command.service(args, parts);
    return await withTerminal((terminal) => command.run(args, parts, terminal));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return refuse(`${error.message}\n\n${helpFor(command)}`);
  }
}

function withoutCommand(argv: readonly string[], parts: ProgramParts): number {
  const [first] = argv;
  if (first === '--version' || first === '-v' || first === 'version') return say(parts.version);
  if (first === undefined || first === '--help' || first === '-h' || first === 'help') return say(overview(commands));
  const family = commands.filter(({ name }) => name.startsWith(`${first} `));
  if (family.length === 0) return refuse(`there is no command "${argv.join(' ')}"\n\n${overview(commands)}`);
  const subcommand = argv[1];
  if (subcommand === '--help' || subcommand === '-h') return say(overview(family));
  return refuse(
    `${subcommand === undefined ? `${first} what?` : `there is no command "${first} ${subcommand}"`}\n\n${overview(family)}`,
  );
}

function overview(shown: readonly Command[]): string {
  const rows = shown.map(({ name, operands = [], about }) => {
    return [`  chancery ${[name, ...operands.map((one) => `<${one}>`)].join(' ')}`, about] as const;
  });
  return `${twoColumns(rows)}\n\n"chancery <command> --help" shows the flags of a command.`;
}

function say(text: string): number {
  print(text);
  return 0;
}

function refuse(text: string): number {
  printError(`chancery: ${text}`);
  return 2;
}
