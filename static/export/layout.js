// Divides texts that browsers would lay out in quadratic time. As dashboard/rendering/line_breaks.py, which gives the reasons.
"use strict";

const [MAX_WORD, MAX_JOINED, MAX_STRETCH, MAX_FOREIGN, MAX_CHANGES, MAX_TURNING] = [100, 16, 250, 8_000, 5_000, 10_000]; // characters
const JOINS = "\\p{M}\\p{Emoji_Modifier}\\u200d\\u{e0020}-\\u{e007f}";
const JOINED = `(?:\\u200d[^ \\t\\n${JOINS}]?|[${JOINS}])`; // an emoji after a zero-width joiner, too
const LONG_CLUSTER = new RegExp(`${JOINED}{${MAX_JOINED}}`, "gu");
const LONG_WORD = new RegExp(`[^ \\t\\n]{${MAX_WORD}}(?:(?<=\\u200d)[^ \\t\\n])?${JOINED}{0,${MAX_JOINED}}(?=[^ \\t\\n])`, "gu");
const STRETCH = new RegExp(`[^]{${MAX_STRETCH}}[^ \\t\\n]{0,${MAX_WORD}}[ \\t\\n]`, "gu");
const ASCII = /[\0-\x7f]+/g;
const TURNED = /[\u0590-\u08ff\u200f\u202b\u202e\u2067\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A text as nodes that browsers lay out in linear time. */
function laidOut(text) {
  if (text.length <= MAX_TURNING || !TURNED.test(text)) return withBreaks(text);
  const parts = [];
  for (let start = 0, end = 0; end < text.length; start = end) {
    end = Math.min(start + MAX_TURNING, text.length);
    const isLast = end === text.length;
    const place = ["\n", " "].map((mark) => text.lastIndexOf(mark, end - 1)).find((index) => index >= start + MAX_TURNING / 2);
    if (!isLast && place) end = place + 1;
    else if (/[\udc00-\udfff]/.test(text[end])) end -= 1;
    const part = estimated(document.createElement("span"), text.slice(start, end));
    part.className = "paragraphs";
    part.append(...withBreaks(text.slice(start, end)));
    parts.push(part);
  }
  return parts;
}

/** The text with <wbr> in long words, after many characters that are joined, and in a text that may need many fonts. */
function withBreaks(text) {
  if (text.length <= MAX_JOINED) return [text];
  let parts = divided(text, LONG_CLUSTER).flatMap((part) => divided(part, LONG_WORD));
  if (mayNeedManyFonts(text)) parts = parts.flatMap((part) => divided(part, STRETCH));
  return parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part]));
}

/** Whether a text has very many characters outside ASCII, or from another block of 128 than the one before. */
function mayNeedManyFonts(text) {
  const foreign = text.replace(ASCII, "").length;
  if (foreign <= MAX_CHANGES / 2 || foreign > MAX_FOREIGN) return foreign > MAX_FOREIGN;
  let changes = 0;
  for (let at = 1; at < text.length; at += 1) changes += text.charCodeAt(at) >> 7 !== text.charCodeAt(at - 1) >> 7;
  return changes > MAX_CHANGES;
}

/** The parts of a text that end after matches. */
function divided(text, pattern) {
  const parts = [];
  let end = 0;
  for (const { 0: word, index } of text.matchAll(pattern)) {
    parts.push(text.slice(end, index + word.length));
    end = index + word.length;
  }
  return [...parts, text.slice(end)];
}

/** Gives an element about the height of its text, so that only the texts near the view are laid out. */
function estimated(element, text) {
  const lines = text.split("\n").length + Math.floor(text.length / 150);
  element.style.containIntrinsicHeight = `auto ${1.5 * lines}em`;
  return element;
}
