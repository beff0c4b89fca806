/* Search without a server.  The theme searches in a worker, and a page that was opened from a file may start none.
 * There, and only there, a hidden frame takes the worker's place: the same messages, in the same order.
 * The theme looks for `IFrameWorker` to know that scripts are loaded one after the other, not at once.
 */
(function () {
  if (location.protocol !== "file:") return;

  function load(inner, url) {
    return new Promise(function (resolve, reject) {
      var script = inner.document.createElement("script");
      script.onload = resolve;
      script.onerror = function () { reject(new Error("cannot load " + url)); };
      script.src = url;
      inner.document.body.appendChild(script);
    });
  }

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      var worker = this;
      var address = new URL(url, document.baseURI).href;
      this.onmessage = this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      (document.body || document.documentElement).appendChild(this.frame);
      var inner = this.frame.contentWindow;
      inner.document.open();
      inner.document.write("<!doctype html><body></body>");
      inner.document.close();
      inner.postMessage = function (data) {
        setTimeout(function () { worker.tell(new MessageEvent("message", { data: data })); });
      };
      inner.importScripts = function () {
        return Array.from(arguments).reduce(function (before, next) {
          return before.then(function () { return load(inner, next); });
        }, Promise.resolve());
      };
      this.ready = load(inner, address).catch(function (error) {
        worker.tell(new ErrorEvent("error", { message: error.message, filename: address }));
        throw error;
      });
      this.ready.catch(function () {});
    }

    tell(event) {
      this.dispatchEvent(event);
      var listener = this["on" + event.type];
      if (typeof listener === "function") listener.call(this, event);
    }

    postMessage(data) {
      var inner = this.frame.contentWindow;
      this.ready = this.ready.then(function () {
        inner.dispatchEvent(new inner.MessageEvent("message", { data: data }));
      });
    }

    terminate() { this.frame.remove(); }
  }

  window.IFrameWorker = window.Worker = IFrameWorker;
})();
