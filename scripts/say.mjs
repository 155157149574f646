/** A line about what the scripts do before the program starts. */
export function say(message) {
  process.stderr.write(`chancery: ${message}\n`);
}
