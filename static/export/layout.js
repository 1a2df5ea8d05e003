// Divides texts that browsers would lay out in quadratic time. As dashboard/rendering/line_breaks.py, which gives the reasons.
"use strict";

const [MAX_WORD, MAX_TURNING] = [250, 10_000]; // characters
const LONG_WORD = new RegExp(`[^ \\t\\n]{${MAX_WORD}}[\\p{M}\\u200d]{0,30}`, "gu");
const SHAPED = /[\p{M}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
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

/** The text with <wbr> in long words that need shaping. */
function withBreaks(text) {
  if (text.length <= MAX_WORD || !SHAPED.test(text)) return [text];
  const nodes = [];
  let end = 0;
  for (const { 0: word, index } of text.matchAll(LONG_WORD)) {
    if (!SHAPED.test(word)) continue;
    nodes.push(text.slice(end, index + word.length), document.createElement("wbr"));
    end = index + word.length;
  }
  return [...nodes, text.slice(end)];
}

/** Gives an element about the height of its text, so that only the texts near the view are laid out. */
function estimated(element, text) {
  const lines = text.split("\n").length + Math.floor(text.length / 150);
  element.style.containIntrinsicHeight = `auto ${1.5 * lines}em`;
  return element;
}
