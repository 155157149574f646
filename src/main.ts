/** The command line. `serve` is the gateway; the other commands read the log and the configuration. */
import { runCli } from './cli/program.ts';
import { serve } from './serve.ts';

process.exitCode = await runCli(process.argv.slice(2), { serve });
