/** English, as JupyterLab's null translator has it. */
export const trans = {
  __: (text, ...values) => text.replace(/%(\d)/g, (_, index) => values[index - 1]),
  _n: (one, many, count, ...values) => trans.__(count === 1 ? one : many, ...values)
};
