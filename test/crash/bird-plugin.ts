/** The plugin of the crash suite: replaces a word of the request, and ends its own process when a request says so. */
import { definePlugin } from 'chancery/plugin';

export default definePlugin({
  name: 'birds',
  label: 'Birds',
  mutates: true,
  hooks: {
    prompt(texts) {
      if (texts.some(({ text }) => text.includes('Exit now'))) process.exit(3);
      const changed = new Map<number, string>();
      for (const [index, { text }] of texts.entries()) {
        if (text.includes('Heron')) changed.set(index, text.replaceAll('Heron', 'bird'));
      }
      return { texts: Object.fromEntries(changed) };
    },
  },
});
